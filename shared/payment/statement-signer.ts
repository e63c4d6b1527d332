import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'

/**
 * A named Ed25519 key as its secret 32-byte seed in 64 hexadecimal digits. It only signs statements and moves no money.
 */
export interface SigningSeed {
  readonly id: string
  readonly seed: string
}

/** The public half of a signing key, in the form of RFC 8037. */
export interface PublicSigningKey {
  /** The DID URL that signatures name: `did:web:farebox.example#k1`. */
  readonly kid: string
  readonly jwk: { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
}

/**
 * Signs the service's statements about prices and payments, for payers to show to others. Ed25519 is deterministic:
 * every API process creates the same signature, and a replay returns the same bytes.
 */
export interface StatementSigner {
  /** The origin's DID, `did:web:…`: control of the origin is control of its keys. */
  readonly did: string
  /** Newest first. Statements signed by any of them verify. */
  readonly publicKeys: readonly PublicSigningKey[]
  /** Returns a JWS in compact serialization over the canonical JSON of `payload`. */
  sign(payload: JsonValue): string
  /** Returns the same without the payload (RFC 7515, appendix F). `type` prevents confusing kinds of statements. */
  signDetached(payload: JsonValue, type: string): string
}

/** Bytes before the seed in the PKCS #8 form of an Ed25519 key (RFC 8410, section 7). */
const PKCS8_PREFIX = '302e020100300506032b657004220420'

/** Creates a signer that signs with the first seed and publishes the public keys of all. Throws when there is none. */
export function createStatementSigner(publicBaseUrl: string, seeds: readonly SigningSeed[]): StatementSigner {
  const did = didOfOrigin(publicBaseUrl)
  const keys = seeds.map(({ id, seed }) => ({ kid: `${did}#${id}`, privateKey: privateKeyOf(seed) }))
  const [newest] = keys
  if (!newest) throw new Error('no signing key is configured')
  const { kid, privateKey } = newest
  return {
    did,
    publicKeys: keys.map((key) => ({ kid: key.kid, jwk: publicJwk(key.privateKey) })),
    sign: (payload) => {
      const { head, body, signature } = signStatement(privateKey, { alg: 'EdDSA', kid }, payload)
      return `${head}.${body}.${signature}`
    },
    signDetached: (payload, type) => {
      const { head, signature } = signStatement(privateKey, { alg: 'EdDSA', kid, typ: type }, payload)
      return `${head}..${signature}`
    },
  }
}

/** The parts of a JWS, each in base64url. */
interface SignedStatement {
  readonly head: string
  readonly body: string
  readonly signature: string
}

function signStatement(privateKey: KeyObject, header: JsonValue, payload: JsonValue): SignedStatement {
  const [head, body] = [base64url(JSON.stringify(header)), base64url(canonicalJson(payload))]
  return { head, body, signature: sign(null, Buffer.from(`${head}.${body}`), privateKey).toString('base64url') }
}

/** Returns the `did:web` of an origin. A port's colon becomes `%3A` (did:web method specification, section 3.2). */
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
