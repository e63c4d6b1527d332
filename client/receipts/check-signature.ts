import { canonicalJson } from '../wire/canonical-json.ts'
import type { Receipt } from '../wire/schemas.ts'
import { judge, type ReceiptCheck } from './receipt-check.ts'
import type { SigningKeys } from './signing-keys.ts'

interface JwsHeader {
  readonly alg?: unknown
  readonly typ?: unknown
  readonly kid?: unknown
}

/** Keeps a signature of another kind of statement from passing as that of a receipt. */
const RECEIPT_TYPE = 'farebox-receipt'

/** Checks the receipt's detached JWS over its other members as canonical JSON. Throws when the keys cannot be read. */
export async function checkSignature(
  { signature, ...signed }: Receipt,
  keys: Pick<SigningKeys, 'find' | 'url'>,
): Promise<ReceiptCheck> {
  const [head = '', detached, tail = '', ...others] = signature.split('.')
  const { alg, typ, kid } = readHeader(head)
  if (detached !== '' || others.length > 0 || alg !== 'EdDSA' || typ !== RECEIPT_TYPE || typeof kid !== 'string')
    return judge('signature', ['it is not a signature of a receipt'], '')
  const payload = Buffer.from(canonicalJson(signed)).toString('base64url')
  const problem = await problemOfJws(`${head}.${payload}.${tail}`, kid, keys)
  return judge('signature', problem === null ? [] : [problem], `by ${kid}`)
}

/** Checks a JWS in compact serialization and returns what is wrong with it, or `null`. */
export async function problemOfJws(
  signature: string,
  kid: string,
  keys: Pick<SigningKeys, 'find' | 'url'>,
): Promise<string | null> {
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

export function readHeader(head: string): JwsHeader {
  try {
    const value: unknown = JSON.parse(Buffer.from(head, 'base64url').toString('utf8'))
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
