import type { FareboxContext } from '../context.ts'
import type { Attempt } from '../journal/attempt.ts'
import type { ChainNode } from '../wallet/node-client.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import type { Receipt } from '../wire/schemas.ts'
import { checkCharge } from './check-charge.ts'
import { checkPayment, checkResultDigest, type KnownPayment } from './check-payment.ts'
import { checkSignature } from './check-signature.ts'
import { checkStatement } from './check-statement.ts'
import { checkTransfer } from './check-transfer.ts'
import type { ReceiptCheck, ReceiptVerification } from './receipt-check.ts'
import type { ReceiptStore } from './receipt-store.ts'
import type { SigningKeys } from './signing-keys.ts'

export interface ReceiptContext
  extends Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'journal'> {
  readonly keys: SigningKeys
  readonly store: ReceiptStore
  /** The configured node, if any. */
  readonly node: () => Promise<ChainNode | null>
}

/** The answer that a receipt came with. */
export interface ReceiptAnswer {
  readonly answer: HttpAnswer
  readonly path: string
}

/** Checks everything that can be checked about a receipt. Throws when the service's keys cannot be read. */
export async function checkReceipt(
  context: ReceiptContext,
  receipt: Receipt,
  node: ChainNode | null,
  given: ReceiptAnswer | null = null,
): Promise<ReceiptVerification> {
  const { keys, payer, pins, baseUrl } = context
  const terms = pins.termsOf(new URL(baseUrl).origin)
  const checks: ReceiptCheck[] = [
    await checkSignature(receipt, keys),
    checkPayment(receipt, { payer, terms, answered: answeredBy(context, receipt.id) }),
    ...checkCharge(receipt),
    checkResultDigest(receipt, given?.answer.body ?? null),
    await checkTransfer(receipt, node),
  ]
  if (given !== null) checks.push(await checkStatement(given.answer.headers, given.path, receipt, keys))
  const outcome = checks.some((check) => check.outcome === 'failed') ? 'failed' : 'passed'
  return { receiptId: receipt.id, outcome, checks, receipt }
}

/** Returns what failed, in words. */
export function problemsOf({ checks }: ReceiptVerification): readonly string[] {
  return checks.filter(({ outcome }) => outcome === 'failed').map(({ name, detail }) => `${name}: ${detail}`)
}

/** Returns the journal's call of a receipt. */
export function attemptOf({ journal }: Pick<FareboxContext, 'journal'>, receiptId: string): Attempt | undefined {
  return journal.attempts.withReceipt(receiptId)
}

function answeredBy(context: ReceiptContext, receiptId: string): KnownPayment['answered'] {
  const answered = attemptOf(context, receiptId)?.receipts.find((each) => each.receiptId === receiptId)
  if (answered === undefined) return null
  const { charge, transaction, maximum } = answered
  return { charge: BigInt(charge), transaction, maximum: maximum === undefined ? null : BigInt(maximum) }
}
