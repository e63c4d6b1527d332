import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { Pool } from 'undici'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../support/http/multipart-body.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { paymentHeader, signCustomPayment } from '../support/payer/custom-payment.ts'
import type { Payer } from '../support/payer/payer.ts'
import { createMemoryGroup } from './limited-worker/memory-group.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { inParallel } from './measuring/in-parallel.ts'
import { createPayers } from './measuring/paid-load.ts'

const MEBIBYTE = 1024 * 1024
/** The memory limit of a worker in the manifests. */
const LIMIT_MEGABYTES = 1280
const [UPLOADS, QUICK_UPLOADS] = [64, 16]
const AUDIO_BYTES = 26_080_600
/** So long that all calls overlap which the worker makes at the same time. */
const UPSTREAM_MS = 10_000
const PAYERS = 16
const PATH = '/v1/audio/transcriptions'
const PATIENCE_MS = 300_000
/** The API refuses bodies beyond its own memory; such a caller tries again. */
const RETRY_MS = 500

/** The same recording for all calls, which the API measures once; the worker reads each upload of it. */
const BODY = multipartBody([
  { name: 'model', value: 'speechvendor/scribe-v2' },
  {
    name: 'file',
    value: generateMp3({ durationMs: 1_700_000 }).subarray(0, AUDIO_BYTES),
    fileName: 'speech.mp3',
    contentType: 'audio/mpeg',
  },
])

/**
 * Pays for 64 uploads of 26 MB at the same time, with one worker under the manifests' memory limit, and measures the worker's
 * memory. Every call must be answered with a paid transcript.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const uploads = quick ? QUICK_UPLOADS : UPLOADS
  const group = await createMemoryGroup(LIMIT_MEGABYTES * MEBIBYTE)
  const sandbox = await startFarebox({
    upstreamDelayMs: UPSTREAM_MS,
    workerEntry: 'test/bench/limited-worker/main.ts',
    workerEnvironment: { WORKER_CONCURRENCY: String(UPLOADS), MEMORY_GROUP: group?.directory ?? '' },
  })
  const { baseUrl, rpcUrl } = sandbox.info
  const client = new Pool(baseUrl, { connections: uploads, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS })
  try {
    const idleMegabytes = residentMegabytes(sandbox.pidOf('worker')).now
    const payers = await createPayers(rpcUrl, PAYERS)
    const calls = await signUploads(client, payers, uploads)
    const startedAt = performance.now()
    const killed = sandbox.crashed.then(async ({ part }) => {
      throw new Error(`${part} ended; processes killed by the kernel: ${await group?.readKills()}`)
    })
    const answers = await Promise.race([Promise.all(calls.map((headers) => untilAdmitted(client, headers))), killed])
    const seconds = (performance.now() - startedAt) / 1000
    const { peak } = residentMegabytes(sandbox.pidOf('worker'))
    const lost = answers.filter((answer) => answer !== '200')
    if (lost.length > 0) throw new Error(`${lost.length} of ${uploads} calls were not answered: ${lost[0]}`)
    return {
      rows: [
        {
          uploads,
          'idle MiB': idleMegabytes,
          'peak MiB': peak,
          'limit MiB': LIMIT_MEGABYTES,
          enforced: group ? 'by the kernel' : 'no',
          'kills by the kernel': (await group?.readKills()) ?? '–',
          seconds,
        },
      ],
      ratios: [atMost(1, 'peak memory ÷ limit', peak / LIMIT_MEGABYTES)],
      limitedBy: 'MAXIMUM_JOB_MEGABYTES: uploads that do not fit wait',
    }
  } finally {
    await client.destroy()
    await sandbox.stop()
    await group?.remove()
  }
})

type Headers = Readonly<Record<string, string>>

/** Asks for the price of each upload and signs the payments. */
async function signUploads(client: Pool, payers: readonly Payer[], count: number): Promise<readonly Headers[]> {
  const calls: Headers[] = []
  await inParallel(Array.from({ length: count }), 2, async (_, index) => {
    const headers = { 'content-type': MULTIPART_CONTENT_TYPE, 'x-idempotency-key': randomUUID() }
    const answer = await client.request({ method: 'POST', path: PATH, headers, body: BODY })
    const required = decodePaymentRequiredHeader(String(answer.headers['payment-required']))
    await answer.body.dump()
    const payer = payers[index % payers.length]
    if (!payer) throw new Error('there are no payers')
    calls.push({ ...headers, ...paymentHeader(await signCustomPayment(required, payer)) })
  })
  return calls
}

/** Sends a paid upload until the API has room for it. Returns the status, with the answer of a failed call. */
async function untilAdmitted(client: Pool, headers: Headers): Promise<string> {
  for (;;) {
    const answer = await client.request({ method: 'POST', path: PATH, headers, body: BODY })
    const text = await answer.body.text()
    if (answer.statusCode === 200) return '200'
    if (answer.statusCode !== 503 || !text.includes('overloaded')) return `${answer.statusCode} ${text}`
    await delay(RETRY_MS)
  }
}

function residentMegabytes(pid: number): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024
  return { now: read('VmRSS'), peak: read('VmHWM') }
}
