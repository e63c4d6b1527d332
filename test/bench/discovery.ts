import { join } from 'node:path'
import { findFreePort } from '../../infra/sandbox/processes/free-port.ts'
import { startService } from '../../infra/sandbox/processes/service-processes.ts'
import { atLeast, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { sendLoad } from './measuring/sdk-packages.ts'

const PATHS = ['/v1/models', '/v1/pricing']
const CONNECTIONS = 32
/** A number instead of a duration: on a busy machine, one second is too short for the code to be compiled. */
const WARM_UP_REQUESTS = 15_000
/** The contestants take turns, so that a change in the machine's load affects both. */
const ROUNDS = 3
const [SECONDS, QUICK_SECONDS] = [5, 2]

/** Measures requests per second for the catalog against a bare Fastify that serves the same bytes. */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const sandbox = await startFarebox()
  try {
    const rows = []
    const ratios = []
    for (const path of PATHS) {
      const url = `${sandbox.info.baseUrl}${path}`
      const bare = await startBareFastify(path, await fetch(url), join(sandbox.directory, 'logs'))
      try {
        const best = { farebox: 0, 'bare Fastify': 0 }
        for (let round = 0; round < (quick ? 1 : ROUNDS); round++)
          for (const [who, target] of [
            ['farebox', url],
            ['bare Fastify', bare.url],
          ] as const) {
            const row = await measure(target, quick ? QUICK_SECONDS : SECONDS)
            rows.push({ path, who, ...row })
            best[who] = Math.max(best[who], row['requests/s'])
          }
        ratios.push(
          atLeast(0.8, `${path}: requests/s ÷ bare Fastify’s, best rounds`, best.farebox / best['bare Fastify']),
        )
      } finally {
        await bare.stop()
      }
    }
    return { rows, ratios, limitedBy: 'the server’s single thread, as long as autocannon has a separate core' }
  } finally {
    await sandbox.stop()
  }
})

async function startBareFastify(path: string, answer: Response, logsDirectory: string) {
  const port = await findFreePort()
  const contentType = answer.headers.get('content-type') ?? ''
  const server = await startService({
    name: 'bare-fastify',
    entry: 'test/bench/servers/bare-fastify.ts',
    logsDirectory,
    isReady: (line) => line === 'listening',
    environment: { PORT: String(port), ANSWER: JSON.stringify({ path, contentType, body: await answer.text() }) },
  })
  return { url: `http://127.0.0.1:${port}${path}`, stop: server.stop }
}

async function measure(url: string, duration: number) {
  await sendLoad({ url, connections: CONNECTIONS, amount: WARM_UP_REQUESTS })
  const result = await sendLoad({ url, connections: CONNECTIONS, duration })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refusals, ${result.errors} errors`)
  return {
    'requests/s': result.requests.total / result.duration,
    'p50 ms': result.latency.p50,
    'p99 ms': result.latency.p99,
    'bytes each': Math.round(result.throughput.total / result.requests.total),
  }
}
