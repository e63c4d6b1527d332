import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'

/** A named Ed25519 key by its secret seed of 32 bytes, as 64 hexadecimal digits. It moves no money and opens nothing. */
export interface SigningSeed {
  readonly id: string
  readonly seed: string
}

/** The public half of a signing key, as RFC 8037 writes it. */
export interface PublicSigningKey {
  /** The DID URL that signatures name: `did:web:farebox.example#k1`. */
  readonly kid: string
  readonly jwk: { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
}

/**
 * Signs what the service says about prices and payments, so that a payer can show it to others. Ed25519 has no random
 * part: the same statement has the same signature on every API process, and a replay the same bytes.
 */
export interface StatementSigner {
  /** Of the origin, `did:web:…`: whoever controls the origin controls its keys. */
  readonly did: string
  /** Newest first; statements of any of them verify. */
  readonly publicKeys: readonly PublicSigningKey[]
  /** JWS in compact serialization over the canonical JSON of `payload`. */
  sign(payload: JsonValue): string
  /** The same with the payload left out (RFC 7515, appendix F). `type` keeps one kind of statement from passing for another. */
  signDetached(payload: JsonValue, type: string): string
}

/** What stands before the seed in the PKCS #8 form of an Ed25519 key (RFC 8410, section 7). */
const PKCS8_PREFIX = '302e020100300506032b657004220420'

/** Offers of one price and second are the same statement, and a signature costs as much as pricing the request. */
const SIGNATURES_REMEMBERED = 1000

/** The first seed signs, the public keys of all are published. Throws when there is none. */
export function createStatementSigner(publicBaseUrl: string, seeds: readonly SigningSeed[]): StatementSigner {
  const did = didOfOrigin(publicBaseUrl)
  const keys = seeds.map(({ id, seed }) => ({ kid: `${did}#${id}`, privateKey: privateKeyOf(seed) }))
  const [newest] = keys
  if (!newest) throw new Error('no signing key is configured')
  const { kid, privateKey } = newest
  const signatures = new LRUCache<string, string>({
    max: SIGNATURES_REMEMBERED,
    memoMethod: (statement) => sign(null, Buffer.from(statement), privateKey).toString('base64url'),
  })
  const signed = (header: JsonValue, payload: JsonValue) => {
    const [head, body] = [base64url(JSON.stringify(header)), base64url(canonicalJson(payload))]
    return { head, body, signature: signatures.memo(`${head}.${body}`) }
  }
  return {
    did,
    publicKeys: keys.map((key) => ({ kid: key.kid, jwk: publicJwk(key.privateKey) })),
    sign: (payload) => {
      const { head, body, signature } = signed({ alg: 'EdDSA', kid }, payload)
      return `${head}.${body}.${signature}`
    },
    signDetached: (payload, type) => {
      const { head, signature } = signed({ alg: 'EdDSA', kid, typ: type }, payload)
      return `${head}..${signature}`
    },
  }
}

/** The `did:web` of an origin; a port's colon is written `%3A` (did:web method specification, section 3.2). */
function didOfOrigin(publicBaseUrl: string): string {
  return `did:web:${encodeURIComponent(new URL(publicBaseUrl).host)}`
}

function privateKeyOf(seed: string): KeyObject {
  const key = Buffer.from(`${PKCS8_PREFIX}${seed}`, 'hex')
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' })
}

function publicJwk(privateKey: KeyObject): PublicSigningKey['jwk'] {
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' })
  if (x === undefined) throw new Error('not an Ed25519 key')
  return { kty: 'OKP', crv: 'Ed25519', x }
}

function base64url(text: string): string {
  return Buffer.from(text).toString('base64url')
}
