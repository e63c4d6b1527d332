import { hash } from 'node:crypto'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import { deriveCallKey } from '../../payment/call-key.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { canonicalJson } from '../../wire/json.ts'
import type { Confirmation, Exchange, McpSession } from '../tool.ts'

/** What names a tool call: the request id that the agent chose, or what was asked within this session. */
export interface CallName {
  readonly tool: string
  readonly requestId: string | undefined
  /** The arguments without the request id. */
  readonly identity: unknown
}

/**
 * Throws unless a call fits into the limits at present and, where the limits ask for it, a person agrees to its price.
 * It agrees to this call alone and changes no limit. Returns what to check before the payment is sent: the limits may be
 * lowered in the meantime.
 */
export async function agree(
  { limits }: Pick<McpSession, 'limits'>,
  farebox: Farebox,
  exchange: Pick<Exchange, 'ask'>,
  question: Confirmation,
): Promise<() => void> {
  const { key: requestId, maximum, tool: group } = question
  // Reserves nothing: the budget decides again, with what is under way, before anything is signed.
  farebox.requireBudget({ requestId, maximum, group })
  const needsPerson = () => maximum > parseUsdc(limits.current().confirmAbove)
  if (needsPerson()) {
    await exchange.ask(question)
    return () => undefined
  }
  return () => {
    if (needsPerson())
      throw uncharged(
        'confirmation_required',
        `The call may cost ${formatUsdc(maximum)} USDC, which needs the agreement of the person since their limits were lowered.`,
        'Repeat the call: it asks the person.',
      )
  }
}

/**
 * Returns the idempotency key of a tool call. With a request id it is the same in every process with this wallet;
 * otherwise in this one, since another session may want the same again.
 */
export function toolCallKey(secret: Uint8Array, nonce: string, { tool, requestId, identity }: CallName): string {
  const named = requestId === undefined ? { nonce, identity } : { requestId }
  const contentSha256 = hash('sha256', canonicalJson(named))
  return deriveCallKey(secret, { operation: `mcp/${tool}`, contentSha256, options: {}, occurrence: 0 })
}
