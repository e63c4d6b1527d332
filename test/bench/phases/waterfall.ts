import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { DURABLE_REDIS, startTestRedis } from '../../support/processes/redis-server.ts'
import { startFarebox } from '../measuring/farebox.ts'
import { createPayers, payAll, signCalls } from '../measuring/paid-load.ts'
import { median } from '../measuring/statistics.ts'
import { type MessageTap, type TappedMessage, tapHttp, tapPostgres } from './message-taps.ts'

/** The messages of one call alone. */
export interface Waterfall {
  readonly queue: 'PostgreSQL' | 'Redis'
  readonly rows: readonly WaterfallRow[]
}

/** A message that many calls send, by the medians of its times since the call was sent. */
interface WaterfallRow {
  /** The process that sends it. */
  readonly by: string
  readonly what: string
  readonly fromMs: number
  readonly toMs: number
  /** The part of all calls that send it. */
  readonly share: number
}

interface Sent extends TappedMessage {
  readonly by: string
}

const WARM_UP_CALLS = 60
/** What follows the answer, such as messages that are removed. */
const AFTER_MS = 30

/** The messages of a queue on Redis are not read. */
export async function readWaterfalls(calls: number): Promise<readonly Waterfall[]> {
  const onPostgres: Waterfall = { queue: 'PostgreSQL', rows: await readWaterfall(calls) }
  const redis = await startTestRedis(DURABLE_REDIS)
  try {
    const outerServices = { QUEUE_URL: redis.url, QUEUE_PREFIX: '{farebox-bench}' }
    return [onPostgres, { queue: 'Redis', rows: await readWaterfall(calls, { outerServices }) }]
  } finally {
    await redis.stop()
  }
}

/** Returns one line for each message, in the order in which they are sent. */
export function describeWaterfall({ queue, rows }: Waterfall): readonly string[] {
  const lines = rows.map(({ by, what, fromMs, toMs, share }) => {
    const [from, took] = [fromMs, toMs - fromMs].map((ms) => ms.toFixed(1).padStart(6))
    return `${from} ms +${took}  ${by}: ${what}${share < 1 ? ` (${(100 * share).toFixed(0)} % of the calls)` : ''}`
  })
  return [`one call alone, with the queue in ${queue}:`, ...lines]
}

/**
 * Follows one paid call at a time through the messages of API and worker: statements, RPC calls, notifications and calls of
 * vendors, in the order in which they are sent. The proxies between cost about 0.2 ms a message.
 */
async function readWaterfall(calls: number, outer: Partial<SandboxOptions> = {}): Promise<readonly WaterfallRow[]> {
  let sent: Sent[] = []
  const taps: MessageTap[] = []
  const environments: Record<string, Record<string, string>> = {}
  const tapped = async (starting: Promise<MessageTap>) => {
    const tap = await starting
    taps.push(tap)
    return tap.url
  }
  const report = (by: string) => (message: TappedMessage) => void sent.push({ by, ...message })
  const sandbox = await startFarebox({
    ...outer,
    environmentOf: (name) => environments[name] ?? {},
    connections: async (real) => {
      for (const name of ['api', 'worker'])
        environments[name] = {
          DATABASE_URL: await tapped(tapPostgres(real.databaseUrl, report(name))),
          RPC_URL: await tapped(tapHttp(real.rpcUrl, report(name))),
          ...(real.queueUrl.startsWith('postgres')
            ? { QUEUE_URL: await tapped(tapPostgres(real.queueUrl, report(`${name}, queue`))) }
            : {}),
        }
      return { ...real, upstreamUrl: await tapped(tapHttp(real.upstreamUrl, report('worker'))) }
    },
  })
  try {
    const payers = await createPayers(sandbox.info.rpcUrl, 4)
    const signed = await signCalls(sandbox.info.baseUrl, payers, WARM_UP_CALLS + calls)
    await payAll(sandbox.info.baseUrl, signed.slice(0, WARM_UP_CALLS), 4)
    const seen: Sent[][] = []
    for (const call of signed.slice(WARM_UP_CALLS)) {
      sent = []
      let [start, end] = [0, 0]
      await payAll(sandbox.info.baseUrl, [call], 1, {
        onPaid: (_, { sentAt, receivedAt }) => {
          start = sentAt
          end = receivedAt
        },
      })
      await new Promise((resolve) => setTimeout(resolve, AFTER_MS))
      const relative = [...sent, { by: 'client', what: 'whole call', sentAt: start, answeredAt: end }]
      seen.push(relative.map((one) => ({ ...one, sentAt: one.sentAt - start, answeredAt: one.answeredAt - start })))
    }
    return summarize(seen)
  } finally {
    await sandbox.stop()
    for (const tap of taps) await tap.stop()
  }
}

/** The nth message of a kind in one call belongs with the nth of it in another. */
function summarize(calls: readonly (readonly Sent[])[]): WaterfallRow[] {
  const rows = new Map<string, Sent[]>()
  for (const call of calls) {
    const counts = new Map<string, number>()
    for (const message of call.toSorted((one, other) => one.sentAt - other.sentAt)) {
      const kind = `${message.by}: ${message.what}`
      const count = (counts.get(kind) ?? 0) + 1
      counts.set(kind, count)
      rows.set(`${kind} ${count}`, [...(rows.get(`${kind} ${count}`) ?? []), message])
    }
  }
  return [...rows.values()]
    .flatMap((messages) => {
      const [first] = messages
      if (!first) return []
      return {
        by: first.by,
        what: first.what,
        fromMs: median(messages.map(({ sentAt }) => sentAt)),
        toMs: median(messages.map(({ answeredAt }) => answeredAt)),
        share: messages.length / calls.length,
      }
    })
    .filter(({ share }) => share >= 0.2)
    .toSorted((one, other) => one.fromMs - other.fromMs)
}
