import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import pg from 'pg'
import { Pool } from 'undici'
import type { ReachPoint } from './reach-point.ts'

/** The port call that is under way, such as `worker.sealResult`. */
const presentCall = new AsyncLocalStorage<string>()
/** The HTTP exchange that is under way, such as `worker.rpc.eth_call`. */
const presentExchange = new AsyncLocalStorage<string>()

/** The same port, with the points `<name>.<member>.before` and `.after` at each of its calls. All members are asynchronous. */
export function portWithPoints<Port extends object>(reach: ReachPoint, name: string, port: Port): Port {
  const wrapped = Object.entries(port).map(([member, value]: [string, unknown]) => [
    member,
    typeof value === 'function' ? callWithPoints(reach, `${name}.${member}`, value.bind(port)) : value,
  ])
  return Object.fromEntries(wrapped) as Port
}

/** The same asynchronous function, with the points `<name>.before` and `.after`. */
export function callWithPoints<Input extends unknown[], Output>(
  reach: ReachPoint,
  name: string,
  call: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return (...input) =>
    presentCall.run(name, async () => {
      reach(`${name}.before`)
      const output = await call(...input)
      reach(`${name}.after`)
      return output
    })
}

/** A statement that is a transition of a job by itself, and so its own transaction. */
const TRANSITION = /^WITH moved AS/

/**
 * Adds to every port call with a transaction the points `<call>.commit.before`, when all its statements are done but one that is
 * a transaction by itself, and `<call>.commit.sent`, when PostgreSQL is told to commit and has not answered.
 */
export function addCommitPoints(reach: ReachPoint): void {
  // Its many overloads come to this.
  const query = Reflect.get(pg.Client.prototype, 'query') as (this: pg.Client, ...input: unknown[]) => unknown
  const withPoints = function (this: pg.Client, ...input: unknown[]): unknown {
    const call = isCommit(input[0]) ? presentCall.getStore() : undefined
    if (call === undefined) return query.apply(this, input)
    reach(`${call}.commit.before`)
    // What fails at the point after sending loses the answer, whatever it is: as if the connection had been lost.
    let lost: { readonly error: unknown } | null = null
    const told = input.at(-1)
    const losing = (...answer: unknown[]) => (told as (...answer: unknown[]) => void)(...(lost ? [lost.error] : answer))
    const answer = query.apply(this, typeof told === 'function' ? [...input.slice(0, -1), losing] : input)
    lost = thrownBy(() => reach(`${call}.commit.sent`))
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
 * Adds points to every HTTP exchange of the process: `<name>.before`, `<name>.written`, when the whole request is handed to
 * the system, and `<name>.answered`, when an answer has come and nobody has seen it. Exchanges with the chain are named
 * `<process>.rpc.<method>`, all others `<process>.upstream`.
 */
export function addExchangePoints(reach: ReachPoint, processName: string): void {
  const withPoints = <Answer>(name: string, exchange: () => Promise<Answer>) =>
    presentExchange.run(name, async () => {
      reach(`${name}.before`)
      const answer = await exchange()
      reach(`${name}.answered`)
      return answer
    })
  const send = globalThis.fetch
  globalThis.fetch = (input, init) => withPoints(`${processName}.upstream`, () => send(input, init))
  // Only the chain is asked so.
  const ask = Reflect.get(Pool.prototype, 'request') as (this: Pool, options: { body: string }) => Promise<unknown>
  const askWithPoints = function (this: Pool, options: { body: string }): Promise<unknown> {
    return withPoints(`${processName}.rpc.${rpcMethod(options.body)}`, () => ask.call(this, options))
  }
  Reflect.set(Pool.prototype, 'request', askWithPoints)
  const names = new WeakMap<object, string>()
  subscribe('undici:request:create', (message) => {
    const name = presentExchange.getStore()
    if (name !== undefined) names.set(requestOf(message), name)
  })
  subscribe('undici:request:bodySent', (message) => {
    const name = names.get(requestOf(message))
    if (name !== undefined) reach(`${name}.written`)
  })
}

function requestOf(message: unknown): object {
  return (message as { request: object }).request
}

function rpcMethod(body: string): string {
  return (JSON.parse(body) as { method: string }).method
}
