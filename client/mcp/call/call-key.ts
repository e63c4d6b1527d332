import { createHash } from 'node:crypto'
import { deriveCallKey } from '../../payment/call-key.ts'
import { canonicalJson } from '../../wire/canonical-json.ts'

/** What names a tool call: the request id that the agent chose, or what was asked within this session. */
export interface CallName {
  readonly tool: string
  readonly requestId: string | undefined
  /** The arguments without the request id. */
  readonly identity: unknown
}

/**
 * Returns the idempotency key of a tool call. With a request id it is the same in every process with this wallet;
 * otherwise in this one, since another session may want the same again.
 */
export function toolCallKey(secret: Uint8Array, nonce: string, { tool, requestId, identity }: CallName): string {
  const named = requestId === undefined ? { nonce, identity } : { requestId }
  const contentSha256 = createHash('sha256').update(canonicalJson(named)).digest('hex')
  return deriveCallKey(secret, { operation: `mcp/${tool}`, contentSha256, options: {}, occurrence: 0 })
}
