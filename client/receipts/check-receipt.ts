import { createHash } from 'node:crypto'
import { checkCharge, checkMaximum } from '../../packages/receipts/check-charge.ts'
import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import type { Attempt } from '../journal/attempt.ts'
import type { Terms } from '../payment/check-challenge.ts'
import type { ChainNode } from '../wallet/node-client.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import type { Receipt } from '../wire/schemas.ts'
import { checkSignature, problemOfJws, readHeader } from './check-signature.ts'
import { checkTransfer } from './check-transfer.ts'
import { judge, type ReceiptCheck, type ReceiptVerification, skip } from './receipt-check.ts'
import type { ReceiptStore } from './receipt-store.ts'
import type { SigningKeys } from './signing-keys.ts'

/** What the client knows of a payment by itself. */
interface KnownPayment {
  readonly payer: string
  readonly terms: Partial<Terms>
  /** What the answer stated and what was signed for it; `null` for a receipt that the journal does not know. */
  readonly answered: {
    readonly charge: bigint
    readonly transaction: string | null
    readonly maximum: bigint | null
  } | null
}

export interface ReceiptContext
  extends Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'journal'> {
  readonly keys: SigningKeys
  readonly store: ReceiptStore
  /** The configured node, if any. */
  readonly node: () => Promise<ChainNode | null>
}

/** The answer that a receipt came with. */
interface ReceiptAnswer {
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
    ...[checkMaximum(receipt), ...checkCharge(receipt)].map(({ check: name, ...found }) => ({ name, ...found })),
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

/**
 * Checks the statement of delivery in an answer's PAYMENT-RESPONSE (x402 extension `offer-receipt`): the service signed
 * it, and it is about this payment.
 */
async function checkStatement(
  headers: Headers,
  path: string,
  receipt: Receipt,
  keys: Pick<SigningKeys, 'find' | 'url'>,
): Promise<ReceiptCheck> {
  const { extractReceiptFromResponse, extractReceiptPayload } = await import('@x402/extensions/offer-receipt')
  const statement = extractReceiptFromResponse(new Response(null, { headers }))
  if (statement?.format !== 'jws') return skip('statement', 'the answer brought none')
  const { signature }: { readonly signature: unknown } = statement
  const { kid } = typeof signature === 'string' ? readHeader(signature.split('.')[0] ?? '') : {}
  if (typeof kid !== 'string') return judge('statement', ['it names no key'], '')
  const problem = await problemOfJws(statement.signature, kid, keys)
  if (problem !== null) return judge('statement', [problem], '')
  const { payer, network, transaction, resourceUrl } = extractReceiptPayload(statement)
  const problems = [
    ...differFromReceipt('payer', receipt.payer, payer),
    ...differFromReceipt('network', receipt.network, network),
    // A charge of zero has no transaction.
    ...differFromReceipt('transaction', receipt.transaction, transaction ?? ''),
    ...differFromReceipt('path', path, URL.canParse(resourceUrl) ? new URL(resourceUrl).pathname : resourceUrl),
  ]
  return judge('statement', problems, `by ${kid}`)
}

function differFromReceipt(name: string, expected: string, actual: unknown): readonly string[] {
  const stated = String(actual)
  return expected.toLowerCase() === stated.toLowerCase() ? [] : [`its ${name} is ${stated}, not ${expected}`]
}

/** Checks that the receipt is about this wallet's payment on the pinned terms, as it was signed and answered. */
export function checkPayment(receipt: Receipt, { payer, terms, answered }: KnownPayment): ReceiptCheck {
  const problems = [
    ...differ('payer', payer, receipt.payer),
    ...differ('network', terms.network, receipt.network),
    ...differ('asset', terms.asset, receipt.asset),
    ...differ('recipient', terms.payTo, receipt.pay_to),
  ]
  if (answered !== null) {
    const { charge, transaction, maximum } = answered
    problems.push(...differAmount('charge', charge, receipt.charge_atomic))
    if (maximum !== null)
      problems.push(...differAmount('authorized maximum', maximum, receipt.authorized_maximum_atomic))
    // Replaced with the same nonce after a reorganization: the receipt names the present one as its settlement.
    const named = [receipt.transaction, receipt.settlement?.transaction ?? receipt.transaction]
    if (transaction !== null && !named.includes(transaction))
      problems.push(`its transaction is ${receipt.transaction}, not ${transaction}`)
  }
  const source = answered === null ? 'of this wallet' : 'as it was signed and answered'
  return judge('payment', problems, `${source}, to ${receipt.pay_to}`)
}

/** Checks that the receipt is about this answer. */
export function checkResultDigest(receipt: Receipt, body: Uint8Array | null): ReceiptCheck {
  if (body === null) return skip('result', 'the answer is not at hand')
  const isSame = createHash('sha256').update(body).digest('hex') === receipt.result_digest
  return judge('result', isSame ? [] : ['its digest is that of another answer'], 'the answer has its digest')
}

function differ(name: string, expected: string | undefined, actual: string): readonly string[] {
  if (expected === undefined || expected === actual.toLowerCase()) return []
  return [`its ${name} is ${actual}, not ${expected}`]
}

function differAmount(name: string, expected: bigint, actual: string): readonly string[] {
  if (BigInt(actual) === expected) return []
  return [`its ${name} is ${formatUsdc(BigInt(actual))} USDC, not ${formatUsdc(expected)} USDC`]
}
