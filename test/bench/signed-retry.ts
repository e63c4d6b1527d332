import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../support/http/multipart-body.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { startStandaloneSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { decodeWithFfmpeg, makeAudio } from './measuring/audio-file.ts'
import { atMost, type BenchResult, type Ratio, runBench } from './measuring/bench.ts'
import { median } from './measuring/statistics.ts'

const MODEL = 'speechvendor/scribe-v2'

/** Half an hour is just below 25 MiB. */
const UPLOADS = [
  { name: '10 s', seconds: 10, form: 'json' },
  { name: '5 min', seconds: 300, form: 'json' },
  { name: '30 min', seconds: 1800, form: 'json' },
  { name: '30 min', seconds: 1800, form: 'multipart' },
] as const
type Form = (typeof UPLOADS)[number]['form']
const [ROUNDS, QUICK_ROUNDS] = [3, 1]

/**
 * Measures how long a caller waits for an upload's quote and for its signed retry, against bare ffmpeg on the same file. The
 * retry must not be decoded again.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const ffmpegPath = await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  if (ffmpegPath === undefined) throw new Error('No ffmpeg found: apt-get install ffmpeg')
  const folder = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const sandbox = await startStandaloneSandbox()
  try {
    const rows = []
    for (const { name, seconds, form } of UPLOADS) {
      const audio = await makeAudio(folder, seconds)
      const rounds: Timings[] = []
      for (let round = 0; round < (quick ? QUICK_ROUNDS : ROUNDS); round++)
        rounds.push(await measure(sandbox, { form, audio: withNewFirstFrame(audio, form, round), folder, ffmpegPath }))
      const medianOf = (part: keyof Timings) => median(rounds.map((timings) => timings[part]))
      rows.push({
        audio: name,
        form,
        MB: audio.length / 1e6,
        'ffmpeg ms': medianOf('ffmpegMs'),
        'quote ms': medianOf('quoteMs'),
        'quoted again ms': medianOf('quotedAgainMs'),
        'signed retry to acceptance ms': medianOf('acceptedMs'),
        'signed retry, whole ms': medianOf('paidMs'),
        'replay ms': medianOf('replayMs'),
      })
    }
    return {
      rows,
      ratios: rows
        .filter(({ audio }) => audio === '30 min')
        .flatMap((row): Ratio[] => [
          atMost(
            0.15,
            `signed retry of 30 min as ${row.form}, to acceptance ÷ its quote`,
            row['signed retry to acceptance ms'] / row['quote ms'],
          ),
          {
            what: `signed retry of 30 min as ${row.form}, the whole call ÷ its quote`,
            value: row['signed retry, whole ms'] / row['quote ms'],
          },
        ])
        .concat(
          rows.map((row) => ({
            what: `quote of ${row.audio} as ${row.form} ÷ bare ffmpeg -f null on its file`,
            value: row['quote ms'] / row['ffmpeg ms'],
          })),
        ),
      limitedBy:
        'the quote: ffmpeg on one core; the retry: receiving the body into memory, then hashing, encrypting and storing the audio',
    }
  } finally {
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

interface Timings {
  readonly ffmpegMs: number
  /** The first quote, which inspects the audio. */
  readonly quoteMs: number
  readonly quotedAgainMs: number
  /** From sending the signed request to the job's acceptance in the ledger. */
  readonly acceptedMs: number
  readonly paidMs: number
  readonly replayMs: number
}

async function measure(
  sandbox: TestSandbox,
  { form, audio, folder, ffmpegPath }: { form: Form; audio: Uint8Array; folder: string; ffmpegPath: string },
): Promise<Timings> {
  const path = join(folder, 'bench.mp3')
  await writeFile(path, audio)
  const idempotencyKey = randomUUID()
  // Prepared before any clock starts.
  const { contentType, body } = bodyOf(form, audio)
  const send = async (expected: number, headers: Record<string, string> = {}) => {
    const sentAt = Date.now()
    const startedAt = performance.now()
    const answer = await fetch(`${sandbox.info.baseUrl}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { 'content-type': contentType, 'x-idempotency-key': idempotencyKey, ...headers },
      body,
    })
    const text = await answer.text()
    if (answer.status !== expected) throw new Error(`answered with ${answer.status} ${text.slice(0, 300)}`)
    return { answer, sentAt, ms: performance.now() - startedAt }
  }
  const ffmpegStartedAt = performance.now()
  await decodeWithFfmpeg(ffmpegPath, path)
  const ffmpegMs = performance.now() - ffmpegStartedAt
  const quote = await send(402)
  const again = await send(402)
  const headers = await sandbox.payer.sign(quote.answer)
  const paid = await send(200, headers)
  const replay = await send(200, headers)
  const [job] = await sandbox.sql<{ accepted_at: Date }>('SELECT accepted_at FROM jobs WHERE idempotency_key = $1', [
    idempotencyKey,
  ])
  if (!job) throw new Error('the paid call has no job')
  return {
    ffmpegMs,
    quoteMs: quote.ms,
    quotedAgainMs: again.ms,
    acceptedMs: job.accepted_at.getTime() - paid.sentAt,
    paidMs: paid.ms,
    replayMs: replay.ms,
  }
}

function bodyOf(form: Form, audio: Uint8Array): { contentType: string; body: Uint8Array<ArrayBuffer> } {
  if (form === 'json') {
    const audio_base64 = Buffer.from(audio).toString('base64')
    return { contentType: 'application/json', body: Buffer.from(JSON.stringify({ model: MODEL, audio_base64 })) }
  }
  const file = { name: 'file', value: audio, fileName: 'speech.mp3', contentType: 'audio/mpeg' }
  return {
    contentType: MULTIPART_CONTENT_TYPE,
    body: Buffer.from(multipartBody([{ name: 'model', value: MODEL }, file])),
  }
}

/** Returns the same audio with a different first frame, so that no earlier inspection of it is cached. */
function withNewFirstFrame(audio: Uint8Array, form: Form, round: number): Uint8Array {
  const frame = generateMp3({ durationMs: 1, seed: `${form} ${round}`, bitrate: 112 })
  return Buffer.concat([frame, audio])
}
