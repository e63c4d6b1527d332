import pLimit from 'p-limit'
import { formatUsdc, parseUsdc } from '../budget/usdc.ts'
import { isReServed } from '../payment/conclude.ts'
import type { PaidAnswer, PaidCall, Payment } from '../payment/paid-call.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { checkReceipt, problemsOf, type ReceiptContext } from './check-receipt.ts'
import { CHECK_WAITS, fetchReceipt } from './read-receipt.ts'
import { journalOutcome, recordVerification } from './verify-receipt.ts'

/** When receipts are verified: before a call returns, later in the background, or never. */
export type VerificationTime = 'at_once' | 'later' | 'never'

type Judgment = Pick<Payment, 'verified' | 'problems'>

/** Receipts that are fetched at a time in the background. */
const CONCURRENCY = 4
/** The service answered, but not with the receipt that it must have. */
const FAILURES: ReadonlySet<string> = new Set(['not_found', 'not_a_receipt'])

/** Verifies the receipt of each payment: a failure is reported with the result, which is paid for. */
export class PaymentVerifier {
  readonly #context: ReceiptContext
  readonly #time: VerificationTime
  readonly #onVerified: ((payment: Payment) => void) | undefined
  readonly #waits: typeof CHECK_WAITS
  readonly #limit = pLimit(CONCURRENCY)
  readonly #running = new Set<Promise<unknown>>()

  constructor(
    context: ReceiptContext,
    time: VerificationTime,
    onVerified?: (payment: Payment) => void,
    waits = CHECK_WAITS,
  ) {
    this.#context = context
    this.#time = time
    this.#onVerified = onVerified
    this.#waits = waits
  }

  /** Returns the answer with the outcome, if it is to be known at once. */
  async after(paid: PaidAnswer, call: PaidCall): Promise<PaidAnswer> {
    if (this.#time === 'never') return paid
    if (this.#time === 'at_once') return { ...paid, payment: await this.#verify(paid, call) }
    const verification = this.#limit(() => this.#verify(paid, call))
    this.#running.add(verification)
    void verification.finally(() => this.#running.delete(verification))
    return paid
  }

  /** Resolves when nothing is verified any more. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
  }

  async #verify(paid: PaidAnswer, call: PaidCall): Promise<Payment> {
    const payment = { ...paid.payment, ...(await this.#judge(paid, call)) }
    this.#onVerified?.(payment)
    return payment
  }

  async #judge({ answer, payment }: PaidAnswer, call: PaidCall): Promise<Judgment> {
    const { url, signal } = call
    const { key, receiptId, receiptToken, charged } = payment
    if (payment.verified === 'failed' || isReServed(answer.headers)) return payment
    if (receiptId === null || receiptToken === null) return missingReceipt(parseUsdc(charged))
    const attempt = this.#context.journal.attempts.get(key)
    if (attempt?.verification === 'passed' && attempt.receipts.length === 1) return { verified: 'passed', problems: [] }
    try {
      const options = { ...this.#waits, signal: this.#time === 'at_once' ? signal : undefined }
      const receipt = await fetchReceipt(this.#context, receiptId, receiptToken, options)
      await this.#context.store.save(receipt)
      const given = { answer, path: new URL(url).pathname, call }
      const verification = await checkReceipt(this.#context, receipt, await this.#context.node(), given)
      recordVerification(this.#context, verification)
      return { verified: verification.outcome, problems: problemsOf(verification) }
    } catch (error) {
      // Whatever the service sent, the result is paid for and returned.
      const { code, problem: sentence } = error instanceof FareboxError ? error : { code: '', problem: String(error) }
      // A part of others' sentences.
      const problem = sentence.replace(/\.$/, '')
      if (!FAILURES.has(code)) return { verified: 'not_checked', problems: [`it could not be checked: ${problem}`] }
      const problems = [`the service does not show it: ${problem}`]
      journalOutcome(this.#context, { key, receiptId, outcome: 'failed', problems })
      return { verified: 'failed', problems }
    }
  }
}

function missingReceipt(charged: bigint): Judgment {
  if (charged === 0n) return { verified: 'not_checked', problems: [] }
  return { verified: 'failed', problems: [`${formatUsdc(charged)} USDC were charged without a receipt`] }
}
