import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { canonicalJson } from '#shared/digests/canonical-json.ts'
import { type Check, failed, NothingToVerify, passed } from '../check.ts'
import { fetchJson, messageOf } from './fetch-json.ts'
import type { ReceiptToVerify } from './read-receipt.ts'

const NAME = 'signature'

const headerSchema = z.looseObject({
  alg: z.literal('EdDSA'),
  typ: z.literal('farebox-receipt'),
  kid: z.string(),
})
const jwkSchema = z.looseObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  kid: z.string().optional(),
})
const keySetSchema = z.union([
  z.looseObject({ keys: z.array(jwkSchema) }),
  jwkSchema.transform((key) => ({ keys: [key] })),
])

type Jwk = z.infer<typeof jwkSchema>

/** The source of the key: `key`, else the service at `baseUrl`, else the origin that the signature names. */
export interface KeySource {
  readonly key?: string | undefined
  readonly baseUrl?: string | undefined
}

/** Checks that the service's key signed exactly these fields. */
export async function checkSignature({ receipt, signedFields }: ReceiptToVerify, source: KeySource): Promise<Check> {
  if (receipt.signature === undefined) return failed(NAME, 'the receipt has none')
  const [head = '', payload, signature] = receipt.signature.split('.')
  const header = headerSchema.safeParse(parseOrNull(Buffer.from(head, 'base64url').toString()))
  if (!header.success || payload !== '' || signature === undefined)
    return failed(NAME, 'not a detached EdDSA signature of a receipt')
  const { kid } = header.data
  try {
    const { key, from } = await findKey(kid, source)
    const signedText = `${head}.${Buffer.from(canonicalJson(signedFields)).toString('base64url')}`
    const isGenuine = verify(null, Buffer.from(signedText), key, Buffer.from(signature, 'base64url'))
    return isGenuine
      ? passed(NAME, `by ${kid}, key ${from}`)
      : failed(NAME, `does not match the receipt: it was altered, or not signed by ${kid} (key ${from})`)
  } catch (error) {
    if (error instanceof NothingToVerify) throw error
    return failed(NAME, `the key ${kid} cannot be found: ${messageOf(error)}. Pass it as --key.`)
  }
}

async function findKey(kid: string, { key, baseUrl }: KeySource): Promise<{ key: KeyObject; from: string }> {
  if (key !== undefined) return { key: publicKeyOf(await readGivenKey(key, kid)), from: 'from --key' }
  const url = new URL('/.well-known/jwks.json', baseUrl ?? originOf(kid)).href
  const { status, body } = await fetchJson(url)
  const keySet = keySetSchema.safeParse(body)
  if (status !== 200 || !keySet.success) throw new Error(`${url} publishes no keys`)
  const published = keySet.data.keys.find((each) => each.kid === kid)
  if (!published) throw new Error(`${url} does not list it`)
  const hint =
    baseUrl === undefined ? ', an origin that the receipt itself names: make sure that you paid this service' : ''
  return { key: publicKeyOf(published), from: `from ${url}${hint}` }
}

/** Reads `--key`: the `x` of a key, or a file with a JWK or a key set. */
async function readGivenKey(key: string, kid: string): Promise<Jwk> {
  const bare = jwkSchema.safeParse({ kty: 'OKP', crv: 'Ed25519', x: key })
  if (bare.success) return bare.data
  const keySet = keySetSchema.safeParse(parseOrNull(await readFile(key, 'utf8').catch(() => '')))
  if (!keySet.success)
    throw new NothingToVerify(
      `--key ${key} is neither the 43 characters of an Ed25519 key's x nor a file with a JWK or a key set.`,
    )
  const [only, ...others] = keySet.data.keys
  const found = keySet.data.keys.find((each) => each.kid === kid) ?? (others.length === 0 ? only : undefined)
  if (!found) throw new Error(`${key} does not list it`)
  return found
}

/** Returns the origin of a `did:web` (did:web method specification, section 3.2); loopback has no certificate. */
function originOf(kid: string): string {
  const identifier = /^did:web:([^:#]+)(#|$)/.exec(kid)?.[1]
  if (identifier === undefined) throw new Error('the key id names no origin')
  const host = decodeURIComponent(identifier)
  const isLoopback = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(host)
  return `${isLoopback ? 'http' : 'https'}://${host}`
}

function publicKeyOf({ kty, crv, x }: Jwk): KeyObject {
  return createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
