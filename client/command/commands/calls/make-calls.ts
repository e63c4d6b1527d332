import { hash } from 'node:crypto'
import { parseUsdc } from '../../../budget/usdc.ts'
import type { Answer, Farebox } from '../../../farebox.ts'
import { requestIdentity } from '../../../payment/call-key.ts'
import { type JsonOperation, OPERATION_PATHS, type Requests, type Results } from '../../../payment/operations.ts'
import { SPENT_KEYS } from '../../../payment/paying-fetch.ts'
import { callsOf } from '../../../requests/text-requests.ts'
import { FareboxError } from '../../../wire/farebox-error.ts'
import { canonicalJson } from '../../../wire/json.ts'
import type { CommandContext } from '../../run.ts'
import { noteWait } from './notes.ts'
import { requirePrice } from './option-values.ts'
import { Undelivered } from './undelivered.ts'

/** A request of a command, which may be made several times. */
interface CommandCall<Name extends JsonOperation> {
  readonly operation: Name
  readonly request: Requests[Name]
  readonly count?: number
  /** Atomic units, for all calls together. */
  readonly limit: bigint | undefined
  /** The idempotency key; by default an equal call that was not handed over is taken up, or another one begun. */
  readonly requestId: string | undefined
}

/** Options that all paid commands share. */
export interface PaidOptions {
  readonly model?: string
  readonly max?: bigint
  readonly requestId?: string
}

/** Makes one of the calls and hands its result over; returns what `deliver` returns. */
type MakeCall<Name extends JsonOperation> = <Delivered>(
  deliver: (answer: Answer<Results[Name]>) => Delivered | Promise<Delivered>,
) => Promise<Delivered>

/** Prices the calls if there is a limit, and returns how to make each of them. Throws before anything is paid. */
export async function priceCalls<Name extends JsonOperation>(
  context: CommandContext,
  { operation, request, count = 1, limit, requestId }: CommandCall<Name>,
  purpose: string,
): Promise<MakeCall<Name>> {
  const farebox = await context.farebox()
  const { signal, output } = context
  const maximum = limit === undefined ? undefined : (await farebox.quote({ operation, request, signal })).price.amount
  if (maximum !== undefined) requirePrice(parseUsdc(maximum) * BigInt(count), limit)
  const calls = callsOf(farebox, operation)
  const undelivered = requestId === undefined && farebox.home !== null ? new Undelivered(farebox.home) : null
  const url = new URL(OPERATION_PATHS[operation], farebox.baseUrl).href
  const identity = requestIdentity('POST', `${url}#${farebox.address}`, hash('sha256', canonicalJson(request)))
  const options = { maximum, signal, purpose, onWait: noteWait(output) }
  return async (deliver) => {
    const call = undelivered?.begin(identity)
    try {
      const delivered = await deliver(await calls.create(request, { ...options, requestId: call?.key ?? requestId }))
      call?.end()
      return delivered
    } catch (error) {
      if (call && error instanceof FareboxError && isOver(farebox, call.key, error)) call.end()
      throw withCommandAdvice(error)
    }
  }
}

/**
 * Returns whether a call ended without a result and without a charge. An error that moved no money tells nothing about what an
 * earlier command has signed or paid under the key: while the journal knows of that, the next command must repeat it.
 */
function isOver(farebox: Farebox, key: string, { code, money }: FareboxError): boolean {
  if (SPENT_KEYS.has(code)) return true
  const state = farebox.knownCall(key)?.state
  return money === 'none' && state !== 'signed' && state !== 'paid'
}

/** The library advises to repeat the call; for a command that is to run it again. */
function withCommandAdvice(error: unknown): unknown {
  if (!(error instanceof FareboxError) || (error.money !== 'authorized' && error.money !== 'unknown')) return error
  const { code, problem, money, requestId, key } = error
  const advice = `Run the same command again: it takes this call up (${key ?? 'its key'}) and is charged once at most.`
  return new FareboxError({ code, problem, money, advice, requestId, key, cause: error })
}
