import { createHash } from 'node:crypto'
import { formatUsdc } from '../budget/usdc.ts'
import type { Terms } from '../payment/check-challenge.ts'
import type { Receipt } from '../wire/schemas.ts'
import { judge, type ReceiptCheck, skip } from './receipt-check.ts'

/** What the client knows of a payment by itself. */
export interface KnownPayment {
  readonly payer: string
  readonly terms: Partial<Terms>
  /** What the answer stated and what was signed for it; `null` for a receipt that the journal does not know. */
  readonly answered: {
    readonly charge: bigint
    readonly transaction: string | null
    readonly maximum: bigint | null
  } | null
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
