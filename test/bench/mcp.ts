import { Pool } from 'undici'
import { atLeast, atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { type Contestant, startContestant } from './measuring/contestants.ts'
import { inParallel } from './measuring/in-parallel.ts'
import { createPayers, type SignedCall, signCalls } from './measuring/paid-load.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import { percentile } from './measuring/statistics.ts'

const PAYERS = 16
/** Both ways of calling are warm after these. */
const WARM_UP_PAIRS = 60
const [PAIRS, QUICK_PAIRS] = [150, 15]
/** Rounds of each way of calling, in turns. */
const [ROUNDS, QUICK_ROUNDS] = [6, 2]
const [CALLS_PER_ROUND, QUICK_CALLS_PER_ROUND] = [160, 32]
const CONCURRENCY = 16
const [MOST_ADDED_MS, LEAST_THROUGHPUT] = [3, 0.9]
const PATIENCE_MS = 300_000

const MCP_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2025-06-18',
}

/** The settlement in a paid result; the whole answer is read by neither client. */
const PAID = /"x402\/payment-response":\{[^{}]*"success":true/

/** A call that is signed and written in both ways before the clock starts. */
interface PreparedCall extends SignedCall {
  readonly toolCall: string
}

/** A way to send a paid chat; throws unless it is answered with a paid result. */
type Send = (client: Pool, call: PreparedCall) => Promise<void>

/**
 * Measures paid chats through `POST /mcp` against the same calls at their endpoint, in turns at one farebox: the load of the
 * machine changes more between two runs than the difference that is measured.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const farebox = await startContestant('farebox', { upstreamDelayMs: 0 })
  const client = new Pool(farebox.baseUrl, {
    connections: CONCURRENCY,
    pipelining: 1,
    headersTimeout: PATIENCE_MS,
    bodyTimeout: PATIENCE_MS,
  })
  try {
    const [pairs, rounds, perRound] = quick
      ? [QUICK_PAIRS, QUICK_ROUNDS, QUICK_CALLS_PER_ROUND]
      : [PAIRS, ROUNDS, CALLS_PER_ROUND]
    const calls = await prepare(farebox, 2 * (WARM_UP_PAIRS + pairs + rounds * perRound))
    await measurePairs(client, calls, WARM_UP_PAIRS)
    const { addedMs, plainMs, hostedMs } = await measurePairs(client, calls, pairs)
    const seconds = { plain: 0, hosted: 0 }
    const cpuMs = { plain: 0, hosted: 0 }
    for (let round = 0; round < 2 * rounds; round++) {
      // ABBA, so that a slow drift affects both alike.
      const way = [0, 3].includes(round % 4) ? 'plain' : 'hosted'
      const before = readCpuMs(farebox.pids)['api'] ?? 0
      seconds[way] += await measureRound(client, calls.splice(0, perRound), way === 'plain' ? sendPlain : sendHosted)
      cpuMs[way] += (readCpuMs(farebox.pids)['api'] ?? 0) - before
    }
    const apiMs = (way: 'plain' | 'hosted') => cpuMs[way] / (rounds * perRound)
    const perSecond = (way: 'plain' | 'hosted') => (rounds * perRound) / seconds[way]
    return {
      rows: [
        {
          way: 'endpoint',
          'p50 ms at 1': percentile(plainMs, 0.5),
          'calls/s at 16': perSecond('plain'),
          'CPU ms of api': apiMs('plain'),
        },
        {
          way: '/mcp',
          'p50 ms at 1': percentile(hostedMs, 0.5),
          'calls/s at 16': perSecond('hosted'),
          'CPU ms of api': apiMs('hosted'),
        },
      ],
      ratios: [
        atMost(MOST_ADDED_MS, 'ms that /mcp adds to a paid call at 1, median of pairs', percentile(addedMs, 0.5)),
        atLeast(
          LEAST_THROUGHPUT,
          `calls/s of /mcp ÷ the endpoint’s at ${CONCURRENCY}`,
          perSecond('hosted') / perSecond('plain'),
        ),
      ],
      limitedBy: 'processor time: client, chain, services and database share the cores',
    }
  } finally {
    await client.destroy()
    await farebox.stop()
  }
})

async function prepare({ baseUrl, rpcUrl }: Contestant, count: number): Promise<PreparedCall[]> {
  const signed = await signCalls(baseUrl, await createPayers(rpcUrl, PAYERS), count)
  return signed.map((call) => ({ ...call, toolCall: toolCallOf(call) }))
}

/** Sends pairs of calls, one each way, and returns what the second way took in addition. */
async function measurePairs(client: Pool, calls: PreparedCall[], pairs: number) {
  const [plainMs, hostedMs]: [number[], number[]] = [[], []]
  for (let pair = 0; pair < pairs; pair++) {
    const ways = [
      [sendPlain, plainMs],
      [sendHosted, hostedMs],
    ] as const
    for (const [send, times] of pair % 2 === 0 ? ways : ways.toReversed())
      times.push(1000 * (await measureRound(client, calls.splice(0, 1), send)))
  }
  return { plainMs, hostedMs, addedMs: hostedMs.map((ms, pair) => ms - (plainMs[pair] ?? 0)) }
}

/** Returns the seconds that all calls took together. */
async function measureRound(client: Pool, calls: readonly PreparedCall[], send: Send): Promise<number> {
  const startedAt = performance.now()
  await inParallel(calls, CONCURRENCY, (call) => send(client, call))
  return (performance.now() - startedAt) / 1000
}

async function sendPlain(client: Pool, { headers, body }: PreparedCall): Promise<void> {
  const answer = await client.request({ method: 'POST', path: '/v1/chat/completions', headers, body })
  const text = await answer.body.text()
  if (answer.statusCode !== 200 || !answer.headers['payment-response']) throw new Error(`not paid: ${text}`)
}

async function sendHosted(client: Pool, { toolCall }: PreparedCall): Promise<void> {
  const answer = await client.request({ method: 'POST', path: '/mcp', headers: MCP_HEADERS, body: toolCall })
  const text = await answer.body.text()
  if (answer.statusCode !== 200 || !PAID.test(text)) throw new Error(`not paid: ${text}`)
}

/** Writes the same call as a tool call. */
function toolCallOf({ headers, body }: SignedCall): string {
  const payment: unknown = JSON.parse(Buffer.from(headers['payment-signature'] ?? '', 'base64').toString())
  const meta = { 'farebox/idempotency-key': headers['x-idempotency-key'], 'x402/payment': payment }
  const params = { name: 'chat', arguments: JSON.parse(body) as object, _meta: meta }
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
}
