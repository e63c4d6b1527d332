import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PublicClient, TransactionReceipt } from 'viem'
import { checkCharge, checkMaximum } from '../../packages/receipts/check-charge.ts'
import { findPayments } from '../../packages/receipts/find-payments.ts'
import { formatUsdc, readUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import type { Terms } from '../payment/check-challenge.ts'
import { type ChainNode, readNode } from '../wallet/node-client.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { canonicalJson, parseObject } from '../wire/json.ts'
import type { Receipt } from '../wire/schemas.ts'
import { checkUsage, type SentCall } from './check-usage.ts'
import { judge, type ReceiptCheck, type ReceiptVerification, skip } from './receipt-check.ts'
import type { ReceiptStore } from './receipt-store.ts'
import { type KeySource, originOf } from './signing-keys.ts'

/** A node may learn of a block some seconds after the service. */
const LOOKUPS = 5
const PAUSE_MS = 1500

/** Keeps a signature of another kind of statement from passing as that of a receipt. */
const RECEIPT_TYPE = 'farebox-receipt'

/** What the client knows of a payment by itself. */
interface KnownPayment {
  /** Absent: any wallet may have paid. */
  readonly payer: string | undefined
  readonly terms: Partial<Terms>
  /** What the answer stated and what was signed for it; `null` for a receipt that the journal does not know. */
  readonly answered: {
    readonly charge: bigint
    readonly transaction: string | null
    /** Of the payments that it may be for; none where nothing is known. */
    readonly maxima: readonly bigint[]
    readonly gasMinimum: bigint
  } | null
}

export interface ReceiptContext extends Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'pins' | 'journal'> {
  /** Absent: any wallet may have paid. */
  readonly payer: string | undefined
  readonly keys: KeySource
  readonly store: ReceiptStore
  /** The configured node, if any. */
  readonly node: () => Promise<ChainNode | null>
}

/** The answer that a receipt came with, and what was sent for it. */
interface ReceiptAnswer {
  readonly answer: HttpAnswer
  readonly path: string
  readonly call: SentCall
}

/** Checks everything that can be checked about a receipt. Throws when the service's keys cannot be read. */
export async function checkReceipt(
  context: ReceiptContext,
  receipt: Receipt,
  node: ChainNode | null,
  given: ReceiptAnswer | null = null,
  resultBody: Uint8Array | null = given?.answer.body ?? null,
): Promise<ReceiptVerification> {
  const { keys, payer, pins, baseUrl } = context
  const terms = pins.termsOf(new URL(baseUrl).origin)
  const checks: ReceiptCheck[] = [
    await checkSignature(receipt, keys),
    checkPayment(receipt, { payer, terms, answered: answeredBy(context, receipt.id) }),
    ...[checkMaximum(receipt), ...checkCharge(receipt)].map(({ check: name, ...found }) => ({ name, ...found })),
    checkResultDigest(receipt, resultBody),
    await checkTransfer(receipt, node),
  ]
  if (given !== null) {
    checks.push(await checkStatement(given.answer.headers, given.path, receipt, keys))
    checks.push(await checkUsage(receipt, given.call))
  }
  const outcome = checks.some((check) => check.outcome === 'failed') ? 'failed' : 'passed'
  return { receiptId: receipt.id, outcome, checks, receipt }
}

/** Returns what failed, in words. */
export function problemsOf({ checks }: ReceiptVerification): readonly string[] {
  return checks.filter(({ outcome }) => outcome === 'failed').map(({ name, detail }) => `${name}: ${detail}`)
}

function answeredBy({ journal }: ReceiptContext, receiptId: string): KnownPayment['answered'] {
  const answered = journal.attempts.withReceipt(receiptId)?.receipts.find((each) => each.receiptId === receiptId)
  if (answered === undefined) return null
  const { charge, transaction, maximum, maxima = maximum === undefined ? [] : [maximum], gasMinimum = 0 } = answered
  return {
    charge: BigInt(charge),
    transaction,
    maxima: maxima.map(BigInt),
    gasMinimum: BigInt(gasMinimum),
  }
}

/**
 * Checks the statement of delivery in an answer's PAYMENT-RESPONSE (x402 extension `offer-receipt`): the service signed
 * it, and it is about this payment.
 */
async function checkStatement(
  headers: Headers,
  path: string,
  receipt: Receipt,
  keys: KeySource,
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
    const { charge, transaction, maxima, gasMinimum } = answered
    problems.push(...differAmount('charge', charge, receipt.charge_atomic))
    const [maximum] = maxima
    if (maximum !== undefined && !maxima.includes(BigInt(receipt.authorized_maximum_atomic)))
      problems.push(...differAmount('authorized maximum', maximum, receipt.authorized_maximum_atomic))
    const { gas_minimum_charge_usd: stated = '0' } = receipt.unit_prices
    const statedMinimum = readUsdc(stated)
    if (statedMinimum === null || statedMinimum > gasMinimum)
      problems.push(`its minimum for gas is ${stated} USDC, and ${formatUsdc(gasMinimum)} USDC was offered`)
    // Replaced with the same nonce after a reorganization: the receipt names the present one as its settlement.
    const named = [receipt.transaction, receipt.settlement?.transaction ?? receipt.transaction]
    if (transaction !== null && !named.includes(transaction))
      problems.push(`its transaction is ${receipt.transaction}, not ${transaction}`)
  }
  const ofWallet = payer === undefined ? `of ${receipt.payer}` : 'of this wallet'
  const source = answered === null ? ofWallet : 'as it was signed and answered'
  return judge('payment', problems, `${source}, to ${receipt.pay_to}`)
}

/** Checks that the receipt is about this answer. */
export function checkResultDigest(receipt: Receipt, body: Uint8Array | null): ReceiptCheck {
  if (body === null) return skip('result', 'the answer is not at hand')
  const isSame = hash('sha256', body) === receipt.result_digest
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

/** Checks the receipt's detached JWS over its other members as canonical JSON. Throws when the keys cannot be read. */
export async function checkSignature({ signature, ...signed }: Receipt, keys: KeySource): Promise<ReceiptCheck> {
  const [head = '', detached, tail = '', ...others] = signature.split('.')
  const { alg, typ, kid } = readHeader(head)
  if (detached !== '' || others.length > 0 || alg !== 'EdDSA' || typ !== RECEIPT_TYPE || typeof kid !== 'string')
    return judge('signature', ['it is not a signature of a receipt'], '')
  const payload = Buffer.from(canonicalJson(signed)).toString('base64url')
  const problem = await problemOfJws(`${head}.${payload}.${tail}`, kid, keys)
  return judge('signature', problem === null ? [] : [problem], `by ${kid}`)
}

/** Returns the origin that a receipt's signature names as its signer's, which nobody has checked; `null` for none. */
export function namedOrigin({ signature }: Pick<Receipt, 'signature'>): string | null {
  const { kid } = readHeader(signature.split('.')[0] ?? '')
  return typeof kid === 'string' ? originOf(kid) : null
}

/** Checks a JWS in compact serialization and returns what is wrong with it, or `null`. */
async function problemOfJws(signature: string, kid: string, keys: KeySource): Promise<string | null> {
  const key = await keys.find(kid)
  if (key === undefined) return `${keys.url} does not list the key ${kid}`
  const { verifyReceiptSignatureJWS } = await import('@x402/extensions/offer-receipt')
  try {
    await verifyReceiptSignatureJWS({ format: 'jws', signature }, { ...key, alg: 'EdDSA' })
    return null
  } catch {
    return `it does not match: something was altered, or it was not signed by ${kid}`
  }
}

function readHeader(head: string): Readonly<Record<string, unknown>> {
  return parseObject(Buffer.from(head, 'base64url').toString('utf8')) ?? {}
}

/** Looks for a payment that transferred exactly the charge from payer to recipient, through a node of the caller's choice. */
export async function checkTransfer(
  receipt: Receipt,
  node: ChainNode | null,
  pauseMs = PAUSE_MS,
): Promise<ReceiptCheck> {
  if (BigInt(receipt.charge_atomic) === 0n) return judge('transfer', [], 'nothing was charged, so there is no transfer')
  // A reorganization may have moved the transfer since the receipt was issued.
  const { state, transaction } = receipt.settlement ?? { state: 'confirmed', transaction: receipt.transaction }
  if (state === 'lost') return judge('transfer', [`a reorganization removed ${transaction}: nothing was paid`], '')
  if (node === null) return skip('transfer', 'no RPC URL is configured')
  if (!/^0x[0-9a-f]{64}$/i.test(transaction)) return judge('transfer', [`${transaction} is not a transaction`], '')
  try {
    const hash = transaction as `0x${string}`
    const found = await readNode(node, receipt.network, (client) => lookUp(client, hash, pauseMs))
    if (found === null) return judge('transfer', [`${transaction} is not on ${receipt.network}`], '')
    return judgeTransfer(receipt, found)
  } catch (error) {
    if (error instanceof FareboxError) return skip('transfer', error.problem)
    throw error
  }
}

async function lookUp(client: PublicClient, hash: `0x${string}`, pauseMs: number): Promise<TransactionReceipt | null> {
  const { TransactionReceiptNotFoundError } = await import('viem')
  for (let lookups = 1; ; lookups += 1) {
    try {
      return await client.getTransactionReceipt({ hash })
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error
      if (lookups === LOOKUPS) return null
      await sleep(pauseMs)
    }
  }
}

function judgeTransfer(receipt: Receipt, transaction: TransactionReceipt): ReceiptCheck {
  const { payer, pay_to: payTo } = receipt
  const { payments, batchSize } = findPayments(receipt, transaction.to, transaction.logs)
  const charge = BigInt(receipt.charge_atomic)
  // Of a batch, which may hold other payments of this payer, one has to be this one.
  const isPaid = payments.some((amounts) => amounts.length === 1 && amounts[0] === charge)
  const { block_number: block } = receipt.settlement ?? receipt
  const problems = [
    ...(transaction.status === 'success' ? [] : ['the transaction was reverted']),
    ...(BigInt(block) === transaction.blockNumber ? [] : [`its block is ${transaction.blockNumber}, not ${block}`]),
    ...(isPaid ? [] : [describeOthers(receipt, payments.flat(), charge)]),
  ]
  const batch = batchSize === null ? '' : `, in a batch of ${batchSize}`
  const isMoved = receipt.settlement !== undefined && receipt.settlement.transaction !== receipt.transaction
  const moved = isMoved ? `, in place of ${receipt.transaction}, which a reorganization removed` : ''
  return judge('transfer', problems, `${formatUsdc(charge)} USDC from ${payer} to ${payTo}${batch}${moved}`)
}

function describeOthers({ payer, pay_to }: Receipt, amounts: readonly bigint[], charge: bigint): string {
  const [amount] = amounts
  if (amount === undefined || amounts.length > 1)
    return `the transaction has ${amounts.length} transfers from ${payer} to ${pay_to}, none of them for this receipt`
  return `${formatUsdc(amount)} USDC were transferred instead of ${formatUsdc(charge)} USDC`
}
