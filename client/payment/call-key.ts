import { createHmac, hash } from 'node:crypto'
import { canonicalJson } from '../wire/json.ts'

/** What the service accepts. `fetch` fails for some others as if the connection were lost, which is repeated for long. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** What makes two calls of a batch the same. */
export interface CallContent {
  readonly operation: string
  /** SHA-256 of the recording or prompt, in hexadecimal. */
  readonly contentSha256: string
  readonly options: Readonly<Record<string, unknown>>
  /** 0 for the first call; the next number asks for the same again, and pays again. */
  readonly occurrence: number
}

/** Derives the idempotency key of a call from its content: the same on every machine with the wallet, and unguessable. */
export function deriveCallKey(
  secret: Uint8Array,
  { operation, contentSha256, options, occurrence }: CallContent,
): string {
  const content = canonicalJson([operation, contentSha256, options, occurrence])
  return createHmac('sha256', secret).update(content).digest('base64url')
}

/** Returns the identity of a request: equal for equal method, URL and body. */
export function requestIdentity(method: string, url: string, bodySha256: string): string {
  return hash('sha256', canonicalJson([method, url, bodySha256]))
}
