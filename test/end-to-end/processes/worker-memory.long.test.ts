import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { request } from 'undici'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { samplesOf, scrape } from '../../support/http/scrape.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** The smallest setting: seven eighths of it, 280 MiB, are for jobs of more than 4 MiB. */
const JOB_MEGABYTES = 320
const UPLOADS = 16
const AUDIO_BYTES = 26_080_600
/** With the transcript and what every job needs, an upload holds 25.7 MiB. */
const FITTING = 10
const PATH = '/v1/audio/transcriptions'
const RETRY_MS = 200

const BODY = multipartBody([
  { name: 'model', value: 'speechvendor/scribe-v2' },
  {
    name: 'file',
    value: generateMp3({ durationMs: 660_000, bitrate: 320 }).subarray(0, AUDIO_BYTES),
    fileName: 'speech.mp3',
    contentType: 'audio/mpeg',
  },
])

let sandbox: TestSandbox
let gate: AnswerGate
let payer: Payer
let metricsPort: number
beforeAll(async () => {
  metricsPort = await findFreePort()
  sandbox = await startTestSandbox({
    workerEnvironment: {
      MAXIMUM_JOB_MEGABYTES: String(JOB_MEGABYTES),
      WORKER_CONCURRENCY: '64',
      METRICS_PORT: String(metricsPort),
    },
    connections: async (real) => {
      gate = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: gate.url }
    },
  })
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
})
afterAll(async () => {
  await sandbox.stop()
  await gate.stop()
})

interface Answer {
  readonly status: number
  readonly challenge: string
  readonly text: string
}

async function send(headers: Record<string, string>): Promise<Answer> {
  // Unlike `fetch`, sends the body without a copy of it.
  const answer = await request(`${sandbox.info.baseUrl}${PATH}`, {
    method: 'POST',
    headers: { 'content-type': MULTIPART_CONTENT_TYPE, ...headers },
    body: BODY,
    headersTimeout: 0,
  })
  return {
    status: answer.statusCode,
    challenge: String(answer.headers['payment-required']),
    text: await answer.body.text(),
  }
}

/** Asks for the price of an upload. Returns the headers that pay for it. */
async function signUpload(): Promise<Record<string, string>> {
  const key = { 'x-idempotency-key': randomUUID() }
  const { challenge } = await untilAdmitted(key)
  return { ...key, ...paymentHeader(await signCustomPayment(decodePaymentRequiredHeader(challenge), payer)) }
}

/** Repeats a request while the API has no memory for its body. */
async function untilAdmitted(headers: Record<string, string>): Promise<Answer> {
  for (;;) {
    const answer = await send(headers)
    if (answer.status !== 503 || !answer.text.includes('"overloaded"')) return answer
    await delay(RETRY_MS)
  }
}

/** Returns NaN when the worker closes the connection of an earlier reading at the same moment. */
async function sample(name: string, labels = ''): Promise<number> {
  const samples = await scrape(metricsPort).catch(() => null)
  return (samples && samplesOf(samples, name)[labels]) ?? Number.NaN
}

function peakMegabytes(): number {
  const status = readFileSync(`/proc/${sandbox.pidOf('worker')}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}

it('a worker calls providers with as many large uploads as fit into its memory, and loses none of the others', async () => {
  const signed = await Promise.all(Array.from({ length: UPLOADS }, signUpload))
  gate.hold()
  const paying = Promise.all(signed.map(async (headers) => (await untilAdmitted(headers)).status))
  // Each upload gets a minute of its own, however slow the machine is.
  for (let accepted = 1; accepted <= UPLOADS; accepted += 1)
    await until(async () => (await sandbox.added('jobs')) >= accepted)
  await until(async () => (await sample('farebox_jobs_waiting_for_memory')) === UPLOADS - FITTING)
  await until(async () => (await sandbox.upstreamCalls()).length === FITTING)
  await until(async () => (await sample('farebox_job_memory_wait_seconds')) > 0)
  await until(async () => (await sample('farebox_job_memory_bytes', '{of="limit"}')) === JOB_MEGABYTES * 1024 * 1024)
  gate.release()
  expect(await paying).toEqual(Array.from({ length: UPLOADS }, () => 200))
  expect(await sandbox.upstreamCalls()).toHaveLength(UPLOADS)
  await until(async () => (await sample('farebox_job_memory_bytes', '{of="reserved"}')) === 0)
  expect(peakMegabytes()).toBeLessThanOrEqual(400 + 1.5 * JOB_MEGABYTES)
})
