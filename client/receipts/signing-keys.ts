import { readFile } from 'node:fs/promises'
import { askForJson, type ServiceAccess } from '../wire/ask-service.ts'
import { uncharged } from '../wire/farebox-error.ts'
import { parseObject } from '../wire/json.ts'
import { CHECK_WAITS } from './read-receipt.ts'

/** A public key of the service (RFC 8037). */
export interface SigningKey {
  readonly kid: string
  readonly kty: 'OKP'
  readonly crv: 'Ed25519'
  readonly x: string
}

/** Where the keys of a check come from. */
export type KeySource = Pick<SigningKeys, 'find' | 'url'>

/** An unknown key may be a new one; the list is asked for again after this time. */
const REREAD_MS = 60_000

/** The keys with which a service signs receipts, as its own origin publishes them. */
export class SigningKeys {
  readonly url: string
  readonly #access: ServiceAccess
  readonly #waits: typeof CHECK_WAITS
  #latest: { readonly keys: Promise<readonly SigningKey[]>; readonly at: number } | null = null

  constructor(access: ServiceAccess, baseUrl: string, waits = CHECK_WAITS) {
    this.#access = access
    this.#waits = waits
    this.url = new URL('/.well-known/jwks.json', baseUrl).href
  }

  /** Returns the key with this id, or `undefined` if the service does not list it. Throws `FareboxError`. */
  async find(kid: string): Promise<SigningKey | undefined> {
    const known = await this.#read()
    const found = known.find((key) => key.kid === kid)
    if (found !== undefined || this.#access.now() - (this.#latest?.at ?? 0) < REREAD_MS) return found
    this.#latest = null
    return (await this.#read()).find((key) => key.kid === kid)
  }

  #read(): Promise<readonly SigningKey[]> {
    if (this.#latest === null) {
      const keys = this.#ask()
      this.#latest = { keys, at: this.#access.now() }
      // The next caller asks again.
      keys.catch(() => {
        this.#latest = null
      })
    }
    return this.#latest.keys
  }

  async #ask(): Promise<readonly SigningKey[]> {
    const { keys } = await askForJson<{ readonly keys?: unknown }>(this.#access, this.url, this.#waits)
    if (Array.isArray(keys)) return keys.filter(isSigningKey)
    throw uncharged('unexpected_answer', `${this.url} publishes no keys.`, 'Check the URL of the service.')
  }
}

function isSigningKey(value: unknown): value is SigningKey {
  const { kid, kty, crv, x } = (value ?? {}) as Record<string, unknown>
  return typeof kid === 'string' && kty === 'OKP' && crv === 'Ed25519' && typeof x === 'string'
}

/**
 * Returns a key that the caller names: the `x` of an Ed25519 JWK, or the path of a file with a JWK or a key set, of which
 * the only key may have any id. Throws `FareboxError`.
 */
export async function givenKeys(given: string): Promise<KeySource> {
  const bare = { kty: 'OKP', crv: 'Ed25519', x: given } as const
  if (isPublicKey(given)) return { url: 'the given key', find: async (kid) => ({ ...bare, kid }) }
  const document = parseObject(await readFile(given, 'utf8').catch(() => '')) ?? {}
  const keys = (Array.isArray(document['keys']) ? document['keys'] : [{ kid: '', ...document }]).filter(isSigningKey)
  const [only, ...others] = keys
  if (only === undefined)
    throw uncharged(
      'invalid_options',
      `The signing key ${given} is neither the 43 characters of an Ed25519 key's x nor a file with a JWK or a key set.`,
      'Pass what the service published at /.well-known/jwks.json.',
    )
  return {
    url: given,
    find: async (kid) => keys.find((key) => key.kid === kid) ?? (others.length === 0 ? { ...only, kid } : undefined),
  }
}

function isPublicKey(text: string): boolean {
  return /^[A-Za-z0-9_-]{43}$/.test(text)
}

/**
 * Returns the origin that a key id names: of a `did:web` (did:web method specification, section 3.2); loopback has no
 * certificate. `null` when it names none.
 */
export function originOf(kid: string): string | null {
  const identifier = /^did:web:([^:#]+)(#|$)/.exec(kid)?.[1]
  if (identifier === undefined) return null
  const host = decodeURIComponent(identifier)
  const isLoopback = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(host)
  return `${isLoopback ? 'http' : 'https'}://${host}`
}
