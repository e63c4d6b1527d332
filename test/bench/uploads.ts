import { randomBytes, randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { PREPARATION_THREADS } from '../../api/request/worker-threads/request-preparer.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../support/http/multipart-body.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { startMeasuredSandbox } from './observed-api/observation.ts'
import { writeResults } from './report/write-results.ts'

const UPLOADS = 64
const AUDIO_BYTES = 26_214_400
/** Divisible by three, so that its Base64 needs no padding. */
const UNIQUE_BYTES = 24
/** Settings of `MAXIMUM_BODY_MEGABYTES`; the last is the default. */
const LIMITS_MEGABYTES = [128, 512]
const MEGABYTE = 1024 * 1024
/** Memory of a thread for the largest body: its text, its decoded bytes and uncollected garbage. */
const THREAD_MEGABYTES = 200
const PROBE_EVERY_MS = 20

/** A body in two pieces that all uploads share, with unique bytes in between. */
interface UploadForm {
  readonly contentType: string
  readonly head: Uint8Array
  readonly tail: Uint8Array
  readonly bytes: number
  unique(): Uint8Array
}

interface Measurement {
  readonly limitMegabytes: number
  readonly answers: Record<string, number>
  readonly seconds: number
  readonly idleMegabytes: number
  readonly peakMegabytes: number
  /** The permitted memory: idle process, bodies and threads. */
  readonly boundMegabytes: number
  readonly slowestProbeMs: number
  readonly longestBlockMs: number
  readonly longestBusyMs: number
}

/**
 * Sends 64 concurrent unpaid uploads of 25 MiB, all different and half of them in each form, and measures how they are answered
 * and how much memory the API uses with two settings of `MAXIMUM_BODY_MEGABYTES`.
 */
const forms = [jsonForm(), multipartForm()]
const measurements: Measurement[] = []
for (const limitMegabytes of LIMITS_MEGABYTES) measurements.push(await measure(limitMegabytes))
for (const { answers, ...figures } of measurements) console.log(answers, figures)
const unexpected = measurements.flatMap(({ answers }) =>
  Object.keys(answers).filter((answer) => answer !== '402' && answer !== '503 overloaded'),
)
console.log(
  unexpected.length === 0 ? 'all answers are 402 or 503 overloaded' : `unexpected answers: ${unexpected.join()}`,
)
await writeResults('uploads', { uploads: UPLOADS, audioBytes: AUDIO_BYTES, measurements })
const isBounded = measurements.every(({ peakMegabytes, boundMegabytes }) => peakMegabytes <= boundMegabytes)
console.log(isBounded ? 'memory stayed within its bound' : 'memory EXCEEDED its bound')
if (unexpected.length > 0 || !isBounded) process.exitCode = 1

async function measure(limitMegabytes: number): Promise<Measurement> {
  const sandbox = await startMeasuredSandbox({ MAXIMUM_BODY_MEGABYTES: String(limitMegabytes) })
  try {
    const { residentBytes: idleBytes } = await sandbox.observe()
    const done = new AbortController()
    const probing = probe(sandbox.info.baseUrl, done.signal)
    const startedAt = performance.now()
    const answers = await Promise.all(
      Array.from({ length: UPLOADS }, (_, index) => upload(sandbox.info.baseUrl, forms[index % forms.length])),
    )
    const seconds = (performance.now() - startedAt) / 1000
    done.abort()
    const slowestProbeMs = await probing
    const { peakResidentBytes, longestBlockMs, longestBusyMs } = await sandbox.observe()
    return {
      limitMegabytes,
      answers: countEqual(answers),
      seconds,
      idleMegabytes: idleBytes / MEGABYTE,
      peakMegabytes: peakResidentBytes / MEGABYTE,
      boundMegabytes: idleBytes / MEGABYTE + limitMegabytes + PREPARATION_THREADS * THREAD_MEGABYTES,
      slowestProbeMs,
      longestBlockMs,
      longestBusyMs,
    }
  } finally {
    await sandbox.stop()
  }
}

/** Sends one upload and returns the status with a failure's code, or the connection's error. */
async function upload(baseUrl: string, form: UploadForm | undefined): Promise<string> {
  if (!form) throw new Error('no such form')
  const headers = {
    'content-type': form.contentType,
    'content-length': form.bytes,
    'x-idempotency-key': randomUUID(),
  }
  const answered = Promise.withResolvers<string>()
  const sent = request(`${baseUrl}/v1/audio/transcriptions`, { method: 'POST', headers, agent: false }, (answer) => {
    const status = String(answer.statusCode)
    text(answer).then(
      (body) => answered.resolve(status === '402' ? status : `${status} ${codeOf(body)}`),
      (error: unknown) => answered.resolve(String(error)),
    )
  })
  sent.on('error', (error) => answered.resolve(error.message))
  sent.write(form.head)
  sent.write(form.unique())
  sent.end(form.tail)
  return await answered.promise
}

/** Returns the audio without its end, where a truncated last frame leaves room for arbitrary bytes. */
function sharedAudio(): Uint8Array {
  const audio = generateMp3({ durationMs: 1_700_000 }).subarray(0, AUDIO_BYTES - UNIQUE_BYTES)
  // The Base64 of whole groups can be continued.
  return audio.subarray(0, audio.length - (audio.length % 3))
}

function uniqueBytes(): Uint8Array {
  return randomBytes(UNIQUE_BYTES)
}

function uniqueGroups(): Uint8Array {
  return Buffer.from(randomBytes(UNIQUE_BYTES).toString('base64'))
}

function jsonForm(): UploadForm {
  const head = Buffer.from(
    `{"model":"speechvendor/scribe-v2","audio_base64":"${Buffer.from(sharedAudio()).toString('base64')}`,
  )
  const tail = Buffer.from('"}')
  return {
    contentType: 'application/json',
    head,
    tail,
    unique: uniqueGroups,
    bytes: head.length + uniqueGroups().length + tail.length,
  }
}

function multipartForm(): UploadForm {
  const file = { name: 'file', value: sharedAudio(), fileName: 'speech.mp3', contentType: 'audio/mpeg' }
  const whole = multipartBody([{ name: 'model', value: 'speechvendor/scribe-v2' }, file])
  const end = whole.lastIndexOf('\r\n--')
  const [head, tail] = [whole.subarray(0, end), whole.subarray(end)]
  return { contentType: MULTIPART_CONTENT_TYPE, head, tail, unique: uniqueBytes, bytes: whole.length + UNIQUE_BYTES }
}

function codeOf(body: string): string {
  return (JSON.parse(body) as { error: { code: string } }).error.code
}

function countEqual(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1
  return counts
}

async function probe(baseUrl: string, signal: AbortSignal): Promise<number> {
  let slowest = 0
  while (!signal.aborted) {
    const startedAt = performance.now()
    await (await fetch(`${baseUrl}/healthz`)).arrayBuffer()
    slowest = Math.max(slowest, performance.now() - startedAt)
    await delay(PROBE_EVERY_MS)
  }
  return slowest
}
