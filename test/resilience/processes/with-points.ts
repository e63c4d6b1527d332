import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import pg from 'pg'
import { Pool } from 'undici'
import { countPayments } from './count-payments.ts'
import type { ReachPoint } from './reach-point.ts'

/** A port call, such as `worker.sealResult`, and how many payments it is about, if that shows in its input. */
interface PortCall {
  readonly name: string
  readonly payments: number | null
}

const currentCall = new AsyncLocalStorage<PortCall>()
/** The current HTTP exchange, such as `worker.rpc.eth_call`. */
const currentExchange = new AsyncLocalStorage<PortCall>()

/**
 * Returns the port with the points `<name>.<member>.before` and `.after` at each call. All members must be
 * asynchronous.
 */
export function portWithPoints<Port extends object>(reach: ReachPoint, name: string, port: Port): Port {
  const wrapped = Object.entries(port).map(([member, value]: [string, unknown]) => [
    member,
    typeof value === 'function' ? callWithPoints(reach, `${name}.${member}`, value.bind(port)) : value,
  ])
  return Object.fromEntries(wrapped) as Port
}

/** Returns the asynchronous function with the points `<name>.before` and `.after`. */
export function callWithPoints<Input extends unknown[], Output>(
  reach: ReachPoint,
  name: string,
  call: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return (...input) => {
    const payments = countPayments(input)
    return currentCall.run({ name, payments }, async () => {
      reach(`${name}.before`, payments)
      const output = await call(...input)
      reach(`${name}.after`, payments)
      return output
    })
  }
}

/** Matches a statement that is a whole transition of one or several jobs, and therefore its own transaction. */
const TRANSITION = /^WITH (moved|mine) AS/

/**
 * Adds to every port call with a transaction the points `<call>.commit.before`, before COMMIT or a statement that is
 * its own transaction, and `<call>.commit.sent`, when it was sent and PostgreSQL has not answered.
 */
export function addCommitPoints(reach: ReachPoint): void {
  // The common form of its many overloads.
  const query = Reflect.get(pg.Client.prototype, 'query') as (this: pg.Client, ...input: unknown[]) => unknown
  const withPoints = function (this: pg.Client, ...input: unknown[]): unknown {
    const call = isCommit(input[0]) ? currentCall.getStore() : undefined
    if (call === undefined) return query.apply(this, input)
    const { name, payments } = call
    reach(`${name}.commit.before`, payments)
    // A failure after sending discards the answer, as a broken connection does.
    let lost: { readonly error: unknown } | null = null
    const callback = input.at(-1)
    const losingCallback = (...answer: unknown[]) =>
      (callback as (...answer: unknown[]) => void)(...(lost ? [lost.error] : answer))
    const answer = query.apply(this, typeof callback === 'function' ? [...input.slice(0, -1), losingCallback] : input)
    lost = thrownBy(() => reach(`${name}.commit.sent`, payments))
    return lost && answer instanceof Promise ? answer.then(() => Promise.reject(lost.error)) : answer
  }
  Reflect.set(pg.Client.prototype, 'query', withPoints)
}

function thrownBy(work: () => void): { readonly error: unknown } | null {
  try {
    work()
    return null
  } catch (error) {
    return { error }
  }
}

function isCommit(statement: unknown): boolean {
  if (typeof statement === 'string') return statement === 'COMMIT'
  const { text } = statement as { readonly text?: unknown }
  return typeof text === 'string' && TRANSITION.test(text)
}

/**
 * Adds points to every HTTP exchange of the process: `<name>.before`, `<name>.written`, when the whole request was
 * handed to the system, and `<name>.answered`, when an answer has arrived and was not read yet. Exchanges with the
 * chain are named `<process>.rpc.<method>`, all others `<process>.upstream`.
 */
export function addExchangePoints(reach: ReachPoint, processName: string): void {
  const withPoints = <Answer>(name: string, payments: number | null, exchange: () => Promise<Answer>) =>
    currentExchange.run({ name, payments }, async () => {
      reach(`${name}.before`, payments)
      const answer = await exchange()
      reach(`${name}.answered`, payments)
      return answer
    })
  const send = globalThis.fetch
  globalThis.fetch = (input, init) => withPoints(`${processName}.upstream`, null, () => send(input, init))
  // Only the chain is called with JSON-RPC.
  const ask = Reflect.get(Pool.prototype, 'request') as (this: Pool, options: { body: string }) => Promise<unknown>
  const askWithPoints = function (this: Pool, options: { body: string }): Promise<unknown> {
    const { method, params = [] } = JSON.parse(options.body) as { method: string; params?: unknown[] }
    const payments = method === 'eth_sendRawTransaction' ? countPayments(params) : null
    return withPoints(`${processName}.rpc.${method}`, payments, () => ask.call(this, options))
  }
  Reflect.set(Pool.prototype, 'request', askWithPoints)
  const exchanges = new WeakMap<object, PortCall>()
  const calls = new WeakSet<object>()
  const upstream = { name: `${processName}.upstream`, payments: null }
  subscribe('undici:request:create', (message) => {
    const exchange = currentExchange.getStore()
    const request = requestOf(message)
    if (exchange !== undefined) exchanges.set(request, exchange)
    // Vendors are called through undici's `request`, which is neither `fetch` nor a method of a dispatcher.
    if (exchange !== undefined || request.method !== 'POST') return
    exchanges.set(request, upstream)
    calls.add(request)
    reach(`${upstream.name}.before`, null)
  })
  subscribe('undici:request:bodySent', (message) => {
    const exchange = exchanges.get(requestOf(message))
    if (exchange !== undefined) reach(`${exchange.name}.written`, exchange.payments)
  })
  subscribe('undici:request:headers', (message) => {
    if (calls.has(requestOf(message))) reach(`${upstream.name}.answered`, null)
  })
}

function requestOf(message: unknown): { readonly method?: string } {
  return (message as { request: { method?: string } }).request
}
