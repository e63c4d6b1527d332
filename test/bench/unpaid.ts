import { randomUUID } from 'node:crypto'
import { atLeast, type BenchResult, runBench } from './measuring/bench.ts'
import { type ContestantName, startContestant } from './measuring/contestants.ts'
import { newCall } from './measuring/paid-load.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import { sendLoad } from './measuring/sdk-packages.ts'

const CONNECTIONS = 32
/** The contestants take turns, so that a change in the machine's load affects both. */
const ROUNDS = 3
const [SECONDS, QUICK_SECONDS] = [6, 3]
/** V8 has compiled by then what runs often, of both. */
const WARM_UP_SECONDS = 8

/**
 * Measures unpaid chats, each with a new key: farebox validates, prices, binds the key in PostgreSQL and signs its offer; the
 * official middleware returns a fixed price and stores nothing.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const contestants = await Promise.all(
    (['farebox', 'x402-express'] as const).map((who) => startContestant(who, { upstreamDelayMs: 0 })),
  )
  try {
    if (!quick) for (const { baseUrl } of contestants) await sendUnpaid(baseUrl, WARM_UP_SECONDS)
    const rows: Awaited<ReturnType<typeof measure>>[] = []
    for (let round = 0; round < (quick ? 1 : ROUNDS); round++)
      for (const { name, baseUrl, pids } of contestants)
        rows.push(await measure(name, baseUrl, pids, quick ? QUICK_SECONDS : SECONDS))
    const best = (who: ContestantName) =>
      Math.max(...rows.filter((row) => row.who === who).map((row) => row['answers/s']))
    return {
      rows,
      ratios: [atLeast(0.8, 'unpaid 402s/s ÷ the middleware’s, best rounds', best('farebox') / best('x402-express'))],
      limitedBy: 'each server’s single thread; farebox also waits for PostgreSQL to commit a batch of keys',
    }
  } finally {
    await Promise.all(contestants.map((contestant) => contestant.stop()))
  }
})

async function measure(who: ContestantName, baseUrl: string, pids: Readonly<Record<string, number>>, seconds: number) {
  await sendUnpaid(baseUrl, 1)
  const before = readCpuMs(pids)
  const result = await sendUnpaid(baseUrl, seconds)
  const after = readCpuMs(pids)
  const answers = result.statusCodeStats?.['402']?.count ?? 0
  if (result.errors > 0 || answers !== result.requests.total)
    throw new Error(`${who}: unexpected answers: ${JSON.stringify(result.statusCodeStats)}, ${result.errors} errors`)
  const cpuOf = (name: string) => ((after[name] ?? 0) - (before[name] ?? 0)) / answers
  return {
    who,
    'answers/s': answers / result.duration,
    'p50 ms': result.latency.p50,
    'p99 ms': result.latency.p99,
    'CPU ms of server': cpuOf('api'),
    'CPU ms of postgres': cpuOf('postgres'),
  }
}

function sendUnpaid(baseUrl: string, seconds: number) {
  return sendLoad({
    url: `${baseUrl}/v1/chat/completions`,
    connections: CONNECTIONS,
    duration: seconds,
    method: 'POST',
    requests: [{ setupRequest: (request) => ({ ...request, ...newCall(randomUUID()) }) }],
  })
}
