import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { walkFrames } from '#mp3/walk-frames.ts'
import { countedPost } from '../support/http/counted-post.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../support/http/multipart-body.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { startStandaloneSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { makeAudio } from './measuring/audio-file.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { median } from './measuring/statistics.ts'

/** At this bitrate half an hour has 10.8 MB. */
const KILOBITS_PER_SECOND = 48
const LENGTHS = [
  { name: '10 s', seconds: 10 },
  { name: '5 min', seconds: 300 },
  { name: '30 min', seconds: 1800 },
] as const
const [ROUNDS, QUICK_ROUNDS] = [3, 1]
const OPTIONS = { model: 'speechvendor/scribe-v2' }

/** One way to call: what is sent for the price, and with the signature. */
interface Way {
  readonly name: string
  readonly ask: (audio: Uint8Array) => Sent
  readonly send: (audio: Uint8Array) => Sent
}

interface Sent {
  readonly path: string
  readonly contentType: string
  readonly body: Buffer
}

const asForm = (audio: Uint8Array): Sent => ({
  path: '/v1/audio/transcriptions',
  contentType: MULTIPART_CONTENT_TYPE,
  body: multipartBody([
    { name: 'model', value: OPTIONS.model },
    { name: 'file', value: audio, fileName: 'speech.mp3', contentType: 'audio/mpeg' },
  ]),
})
const asJson = (audio: Uint8Array): Sent => ({
  path: '/v1/audio/transcriptions',
  contentType: 'application/json',
  body: Buffer.from(JSON.stringify({ ...OPTIONS, audio_base64: Buffer.from(audio).toString('base64') })),
})
const PRICE_FIRST = 'price first, form'
const TWO_UPLOADS = 'two uploads, JSON'
const WAYS: readonly Way[] = [
  { name: TWO_UPLOADS, ask: asJson, send: asJson },
  { name: 'two uploads, form', ask: asForm, send: asForm },
  { name: PRICE_FIRST, ask: asClaim, send: asForm },
]

/**
 * Measures what a caller sends and waits for who prices a recording by a description and uploads it once, against
 * uploading it for the price and again with the signature. Each call has a recording that the service has not seen.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const sandbox = await startStandaloneSandbox()
  try {
    const rows = []
    for (const { name, seconds } of LENGTHS) {
      const audio = await makeAudio(folder, seconds, KILOBITS_PER_SECOND)
      const calls = WAYS.map((way): { way: Way; measured: Measured[] } => ({ way, measured: [] }))
      // The ways take turns, so that a change of the machine's speed concerns all of them.
      for (let round = 0; round < (quick ? QUICK_ROUNDS : ROUNDS); round++)
        for (const { way, measured } of calls) measured.push(await call(sandbox, way, withNewFirstFrame(audio)))
      for (const { way, measured } of calls) rows.push(rowOf(name, audio, way, measured))
    }
    return {
      rows,
      ratios: ratiosOf(rows),
      notes: ['The time of the price includes the hash and the frame walk of a described recording, by its caller.'],
      limitedBy: 'one decode of the recording on one core, then encryption, the vendor and the settlement',
    }
  } finally {
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

interface Measured {
  readonly priceMs: number
  readonly signedMs: number
  /** From the first byte of the question for the price to the last of the transcript, with the signature. */
  readonly wholeMs: number
  readonly sentBytes: number
}

async function call(sandbox: TestSandbox, way: Way, audio: Uint8Array): Promise<Measured> {
  const key = { 'x-idempotency-key': randomUUID() }
  const send = async ({ path, contentType, body }: Sent, status: number, headers: Record<string, string>) => {
    const url = `${sandbox.info.baseUrl}${path}`
    const posted = await countedPost(url, { ...headers, 'content-type': contentType }, body)
    if (posted.answer.status !== status)
      throw new Error(`${way.name} was answered with ${posted.answer.status} ${await posted.answer.text()}`)
    return posted
  }
  // The signed body is prepared before the clock starts; a caller prepares it while it waits for the price.
  const upload = way.send(audio)
  const startedAt = performance.now()
  const priced = await send(way.ask(audio), 402, key)
  const pricedAt = performance.now()
  const signature = await sandbox.payer.sign(priced.answer)
  const signedAt = performance.now()
  const paid = await send(upload, 200, { ...key, ...signature })
  const endedAt = performance.now()
  return {
    priceMs: pricedAt - startedAt,
    signedMs: endedAt - signedAt,
    wholeMs: endedAt - startedAt,
    sentBytes: priced.sentBytes + paid.sentBytes,
  }
}

function asClaim(audio: Uint8Array): Sent {
  const walk = walkFrames(audio)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  const sha256 = createHash('sha256').update(audio).digest('hex')
  const request = { ...OPTIONS, audio: { sha256, bytes: audio.length, duration_ms: walk.durationMs } }
  const claim = { operation: 'createTranscription', request, challenge: true }
  return { path: '/v1/quotes', contentType: 'application/json', body: Buffer.from(JSON.stringify(claim)) }
}

function rowOf(name: string, audio: Uint8Array, way: Way, measured: readonly Measured[]) {
  const medianOf = (part: keyof Measured) => median(measured.map((figures) => figures[part]))
  return {
    audio: name,
    MB: audio.length / 1e6,
    way: way.name,
    'price ms': medianOf('priceMs'),
    'signed request ms': medianOf('signedMs'),
    'whole call ms': medianOf('wholeMs'),
    'bytes sent ÷ size': medianOf('sentBytes') / audio.length,
  }
}

function ratiosOf(rows: readonly ReturnType<typeof rowOf>[]) {
  const find = (audio: string, way: string) => {
    const row = rows.find((candidate) => candidate.audio === audio && candidate.way === way)
    if (!row) throw new Error(`no figures of ${audio}, ${way}`)
    return row
  }
  return [
    atMost(1.01, 'bytes sent ÷ size of 10.8 MB, price first', find('30 min', PRICE_FIRST)['bytes sent ÷ size']),
    ...LENGTHS.map(({ name }) => ({
      what: `whole call of ${name}, price first ÷ two uploads`,
      value: find(name, PRICE_FIRST)['whole call ms'] / find(name, TWO_UPLOADS)['whole call ms'],
    })),
  ]
}

/** Returns the same audio with another first frame, so that no inspection of it is cached. */
function withNewFirstFrame(audio: Uint8Array): Uint8Array {
  return Buffer.concat([generateMp3({ durationMs: 1, seed: randomUUID(), bitrate: KILOBITS_PER_SECOND }), audio])
}
