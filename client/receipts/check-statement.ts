import type { Receipt } from '../wire/schemas.ts'
import { problemOfJws, readHeader } from './check-signature.ts'
import { judge, type ReceiptCheck, skip } from './receipt-check.ts'
import type { SigningKeys } from './signing-keys.ts'

/**
 * Checks the statement of delivery in an answer's PAYMENT-RESPONSE (x402 extension `offer-receipt`): the service signed
 * it, and it is about this payment.
 */
export async function checkStatement(
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
    ...differ('payer', receipt.payer, payer),
    ...differ('network', receipt.network, network),
    // A charge of zero has no transaction.
    ...differ('transaction', receipt.transaction, transaction ?? ''),
    ...differ('path', path, URL.canParse(resourceUrl) ? new URL(resourceUrl).pathname : resourceUrl),
  ]
  return judge('statement', problems, `by ${kid}`)
}

function differ(name: string, expected: string, actual: unknown): readonly string[] {
  const stated = String(actual)
  return expected.toLowerCase() === stated.toLowerCase() ? [] : [`its ${name} is ${stated}, not ${expected}`]
}
