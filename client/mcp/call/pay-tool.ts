import { parseUsdc } from '../../budget/usdc.ts'
import type { Answer, CallOptions, Farebox, KnownCall } from '../../farebox.ts'
import { ChallengeRefused } from '../../payment/check-challenge.ts'
import { FareboxError, uncharged } from '../../wire/farebox-error.ts'
import type { Exchange, McpSession } from '../tool.ts'
import { agree, type CallName, toolCallKey } from './agree.ts'

/** Clients end a call that reports nothing for a minute. */
const HEARTBEAT_MS = 10_000

export interface ToolCall<Result> extends CallName {
  /** What the call does, for the person who is asked to agree. Only texts of this program. */
  readonly summary: string
  /** Makes the request. `known` is the call as it was made before, if it was. */
  readonly prepare: (farebox: Farebox, known: KnownCall | null) => Promise<PreparedCall<Result>>
}

interface PreparedCall<Result> {
  /** The identity of the request in the journal, such as `jsonCallIdentity` returns. */
  readonly identity: string
  /** Asks for the maximum price, as decimal USDC. */
  readonly quote: () => Promise<string>
  readonly pay: (options: CallOptions) => Promise<Answer<Result>>
}

/**
 * Makes a paid call of a tool: key, price, limits, agreement, payment. The same call is charged once, however often it is
 * made: one that is paid for or under way is repeated under its key, without another question unless its price has risen.
 */
export async function payTool<Result>(
  session: McpSession,
  exchange: Exchange,
  call: ToolCall<Result>,
): Promise<Answer<Result>> {
  const farebox = await session.farebox()
  // An unusable limits file ends the call before anything is sent.
  session.limits.current()
  const { secret } = await farebox.keySecret()
  const key = toolCallKey(secret, session.nonce, call)
  const work = reportWork(exchange)
  try {
    const known = farebox.knownCall(key)
    const prepared = await call.prepare(farebox, known)
    const { answers } = session
    const kept = answers.get(key)
    const before = kept?.identity ?? known?.identity
    if (before !== undefined && before !== prepared.identity) throw conflict()
    if (kept !== undefined) {
      const { result, payment } = kept.answer as Answer<Result>
      return { result, payment: { ...payment, replayed: true } }
    }
    const pay = async (agreed: Agreed) => {
      work.step('paying')
      // The price and the person took their time: another call may have taken the request id meanwhile. Its identity in
      // the journal must not be replaced.
      const { identity } = farebox.knownCall(key) ?? prepared
      if (identity !== prepared.identity) throw conflict()
      const options = { requestId: key, signal: exchange.signal, purpose: `mcp ${call.tool}`, group: call.tool }
      return await prepared.pay({ ...options, ...agreed, onWait: () => work.step('waiting for the service') })
    }
    const agreeNow = () => priceAndAgree(session, exchange, farebox, call, key, prepared)
    // What was paid or signed before was agreed to before, at its price. Since then that may have risen.
    const paying =
      known?.maximum == null
        ? pay(await agreeNow())
        : pay({ maximum: known.maximum }).catch(async (error: unknown) => {
            if (!isAboveMaximum(error)) throw error
            return await pay(await agreeNow())
          })
    const answer = await paying.catch(throwAsConflict)
    answers.keep(key, prepared.identity, answer)
    return answer
  } finally {
    work.end()
  }
}

/** A price that is allowed, and what is checked again before it is paid. */
type Agreed = Pick<CallOptions, 'maximum' | 'beforePayment'>

async function priceAndAgree<Result>(
  session: McpSession,
  exchange: Exchange,
  farebox: Farebox,
  { tool, summary }: ToolCall<Result>,
  key: string,
  { quote }: PreparedCall<Result>,
): Promise<Agreed> {
  const maximum = await quote()
  const question = { tool, key, maximum: parseUsdc(maximum), summary }
  return { maximum, beforePayment: await agree(session, farebox, exchange, question) }
}

function isAboveMaximum(error: unknown): boolean {
  return error instanceof ChallengeRefused && error.differences.every(({ term }) => term === 'maximum')
}

/** Calls at the same time, here or in another process, are told apart by their keys, which an agent does not know. */
function throwAsConflict(error: unknown): never {
  const isTaken = error instanceof FareboxError && error.code === 'idempotency_key_reused' && error.money === 'none'
  throw isTaken ? conflict(error) : error
}

function conflict(cause?: unknown): FareboxError {
  return uncharged(
    'request_id_conflict',
    'This request_id was used with other arguments before.',
    'Repeat the call with the same arguments, or use another request_id for another call.',
    cause,
  )
}

/** Begins to report the work of a call: at each step, and every few seconds. */
function reportWork(exchange: Pick<Exchange, 'progress'>) {
  let [done, message] = [0, 'asking for the price']
  const report = () => exchange.progress(++done, undefined, message)
  const timer = setInterval(report, HEARTBEAT_MS)
  report()
  return {
    step: (next: string) => {
      message = next
      report()
    },
    end: () => clearInterval(timer),
  }
}
