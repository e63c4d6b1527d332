import type { Payment } from '../../../payment/paid-call.ts'
import type { FareboxError } from '../../../wire/farebox-error.ts'
import type { Output } from '../../output/output.ts'
import { usdc } from '../../transcribe/amounts.ts'

/** More than all USDC that will ever exist; such allowances are granted without a limit in mind. */
const UNLIMITED = 2n ** 128n

/** Another payment of the wallet uses the permit: an approval would let both settle. */
const PERMIT_IN_USE = 'permit_already_used'

/** Returns a listener that says why a call waits. */
export function noteWait(output: Output): (error: FareboxError, waitMs: number) => void {
  let isHinted = false
  return ({ code, problem }, waitMs) => {
    const hint = code === PERMIT_IN_USE && !isHinted ? ' Run farebox approve once, and calls run in parallel.' : ''
    isHinted ||= hint !== ''
    const sentence = /^.*?[.!?](?= [A-Z]|$)/s.exec(problem)?.[0] ?? problem
    output.note(`waiting ${(waitMs / 1000).toFixed(1)} s: ${sentence}${hint}`)
  }
}

/** Says what was charged, and warns of everything that is wrong with the payment. Returns whether nothing is. */
export function notePayment(output: Output, payment: Payment): boolean {
  if (!output.json) output.note(paymentLine(payment))
  if (!payment.recorded)
    output.warn('the journal could not record the answer: free disk space; until then its maximum stays reserved')
  const problems = payment.problems.join('; ')
  if (payment.verified === 'failed') {
    const advice = 'the result is complete; keep the receipt and ask the operator'
    output.warn(`the receipt ${payment.receiptId ?? ''} does not verify: ${problems} (${advice})`)
    return false
  }
  if (problems !== '') output.warn(`the receipt ${payment.receiptId ?? ''} is not verified: ${problems}`)
  return true
}

function paymentLine({ maximum, charged, receiptId, replayed, verified }: Payment): string {
  const price = replayed
    ? `nothing charged: ${charged} USDC were paid for this call before`
    : `charged ${charged} USDC${maximum === null ? '' : `, at most ${maximum}`}`
  const receipt = receiptId === null ? [] : [`receipt ${receiptId}${verified === 'passed' ? ', verified' : ''}`]
  return [price, ...receipt].join(' · ')
}

/** Returns what `--json` shows of a payment. The token that opens the receipt stays in the journal. */
export function paymentForm(payment: Payment): object {
  const { key, maximum, charged, transaction, receiptId, replayed, verified, problems, recorded } = payment
  return {
    requestId: key,
    maximumUsdc: maximum,
    chargedUsdc: charged,
    transaction,
    receiptId,
    replayed,
    verified,
    ...(problems.length > 0 && { problems }),
    ...(!recorded && { recorded }),
  }
}

export function isUnlimited(allowance: bigint): boolean {
  return allowance >= UNLIMITED
}

/** Describes what Permit2 may take, and what that means for calls. */
export function allowanceText(allowance: bigint, balance: bigint): string {
  if (isUnlimited(allowance)) return 'without a limit: calls run in parallel'
  if (allowance > 0n && allowance >= balance) return `${usdc(allowance)}: calls run in parallel`
  const amount = allowance === 0n ? 'none' : usdc(allowance)
  return `${amount}: calls sign a permit, or run farebox approve`
}

/** Calls bring the permit to the chain, or the service keeps it for the next charge. */
export const APPROVAL_TEXT = "signed once that Permit2 may take this wallet's USDC, at no cost"
