import { findFreePort } from '../../infra/sandbox/processes/free-port.ts'
import { type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { type ClientTimes, readLedgerPhases } from './phases/ledger-phases.ts'
import { readStageTimes, stageMsBetween } from './phases/stage-times.ts'
import { describeWaterfall, readWaterfalls } from './phases/waterfall.ts'

const PAYERS = 16
const WARM_UP_CALLS = 80
const [FOLLOWED_CALLS, QUICK_FOLLOWED_CALLS] = [60, 10]
/** A single call at a time, and enough concurrent calls to keep the machine busy. */
const LOADS = [
  { concurrency: 1, calls: 150, quickCalls: 25 },
  { concurrency: 16, calls: 400, quickCalls: 60 },
]

/**
 * Measures where the time of a paid chat goes with an upstream that answers immediately: by the timestamps of ledger and client,
 * and in more detail by the stages that the processes measure, which overlap (`hold` includes all of the worker's stages).
 * Then follows single calls message by message, with the queue in PostgreSQL and on Redis.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const [apiPort, workerPort] = await Promise.all([findFreePort(), findFreePort()])
  const sandbox = await startFarebox({
    apiEnvironment: { METRICS_PORT: String(apiPort) },
    workerEnvironment: { METRICS_PORT: String(workerPort) },
  })
  try {
    const { baseUrl, rpcUrl } = sandbox.info
    const payers = await createPayers(rpcUrl, PAYERS)
    await payAll(baseUrl, await signCalls(baseUrl, payers, WARM_UP_CALLS), 16)
    const columns: { readonly concurrency: number; readonly ms: ReadonlyMap<string, number> }[] = []
    for (const { concurrency, calls, quickCalls } of LOADS) {
      const signed = await signCalls(baseUrl, payers, quick ? quickCalls : calls)
      const times: Map<string, { sentAt: number; receivedAt: number }> = new Map()
      const before = await readStageTimes([apiPort, workerPort])
      await payAll(baseUrl, signed, concurrency, {
        onPaid: (call, ofCall) => {
          times.set(String(call.headers['x-idempotency-key']), ofCall)
        },
      })
      const after = await readStageTimes([apiPort, workerPort])
      const phases = await readLedgerPhases(sandbox, times satisfies ClientTimes)
      columns.push({ concurrency, ms: new Map([...phases, ...stageMsBetween(before, after, signed.length)]) })
    }
    const parts = [...new Set(columns.flatMap(({ ms }) => [...ms.keys()]))]
    const ofWhole = (concurrency: number, part: string) => {
      const ms = columns.find((column) => column.concurrency === concurrency)?.ms
      return ((ms?.get(part) ?? 0) / (ms?.get('whole call') ?? 1)) * 100
    }
    const waterfalls = await readWaterfalls(quick ? QUICK_FOLLOWED_CALLS : FOLLOWED_CALLS)
    return {
      rows: parts.map((part) => ({
        part,
        ...Object.fromEntries(
          columns.flatMap(({ concurrency, ms }) => [
            [`ms, concurrency ${concurrency}`, ms.get(part) ?? 0],
            [`%, concurrency ${concurrency}`, ofWhole(concurrency, part)],
          ]),
        ),
      })),
      ratios: [],
      notes: [
        'parts are medians between timestamps of ledger and client; stages are means from the processes’ metrics',
        ...waterfalls.flatMap(describeWaterfall),
      ],
      limitedBy: 'the longest part',
    }
  } finally {
    await sandbox.stop()
  }
})
