import { mkdtemp, open, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { findFfmpeg } from '../../client/audio/ffmpeg.ts'
import type { AudioLimits } from '../../client/audio/limits.ts'
import { stitch } from '../../client/audio/parts/stitch.ts'
import { prepareRecording, type Upload } from '../../client/audio/prepare-recording.ts'
import { Preparer } from '../../client/batch/plan/preparer.ts'
import { askTerms, type TranscriptionTerms, termsOf } from '../../client/batch/plan/pricing.ts'
import { createFarebox, type Farebox, walletFromPrivateKey } from '../../client/farebox.ts'
import { compareWords } from '../support/media/compare-words.ts'
import { startInspector } from '../support/media/inspect-audio.ts'
import { generateFrames } from '../support/media/mp3-generator.ts'
import { generateId3v2 } from '../support/media/tag-generator.ts'
import { scriptSpeech, writeSpeech } from '../support/media/tone-voice.ts'
import { havePrograms } from '../support/processes/optional-program.ts'
import { runProgram } from '../support/processes/run-program.ts'
import { type SharedSandbox, startTestSandbox } from '../support/processes/test-sandbox.ts'

const MODEL = 'speechvendor/scribe-v2'
const MINUTE_MS = 60_000
const FARTHEST_MS = 50
const canRun = havePrograms('ffmpeg', 'ffprobe')
/** There is no silence to cut at around the first hour, and for ten minutes more. */
const speech = scriptSpeech({
  durationMs: 195 * MINUTE_MS,
  noisy: [
    { startMs: 45 * MINUTE_MS, endMs: 61 * MINUTE_MS },
    { startMs: 150 * MINUTE_MS, endMs: 160 * MINUTE_MS },
  ],
})
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const HELD_BYTES = 256 * 1024 * 1024

describe.skipIf(!canRun)('3 h 15 of scripted voices', () => {
  let sandbox: SharedSandbox
  let farebox: Farebox
  let terms: TranscriptionTerms
  let folder = ''
  const at = (name: string) => join(folder, name)
  async function prepare(name: string, limits: AudioLimits) {
    return await prepareRecording(at(name), { limits, ffmpeg: await findFfmpeg(), folder: at('prepared') })
  }
  /** Transcribes all parts, of which each is charged its price, and joins them. */
  async function transcribe(uploads: readonly Upload[], concurrency: number) {
    const limit = pLimit(concurrency)
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const parts = await Promise.all(
      uploads.map((upload) =>
        limit(async () => {
          const { path: file, sha256, bytes, durationMs } = upload
          const audio = { sha256, bytes, duration_ms: durationMs }
          const { result } = await farebox.transcriptions.create({ file, model: MODEL, diarize: true, audio })
          return { ...upload, transcript: result }
        }),
      ),
    )
    const price = uploads.reduce((sum, { durationMs }) => sum + terms.priceOf(durationMs), 0n)
    expect(before - (await sandbox.chain.usdcBalance(sandbox.payer.address))).toBe(price)
    return stitch(parts)
  }
  function expectEveryWord(transcript: Awaited<ReturnType<typeof transcribe>>) {
    const { farthestMs, ...counts } = compareWords(transcript, speech.words)
    expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
    expect(farthestMs).toBeLessThanOrEqual(FARTHEST_MS)
  }

  beforeAll(async () => {
    sandbox = await startTestSandbox()
    folder = await mkdtemp(join(tmpdir(), 'farebox-long-'))
    const { baseUrl, rpcUrl, payer } = sandbox.info
    farebox = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl,
      rpcUrl,
      journal: 'memory',
    })
    terms = await askTerms(farebox, MODEL, undefined)
    // Payments in parallel need it.
    await farebox.approve()
    await writeSpeech(at('speech.wav'), speech, 16_000)
  })
  afterAll(async () => {
    await farebox.close()
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  })

  it('have every word within 50 ms of its place when a WAV is converted and split below an hour', async () => {
    const { uploads, treatment } = await prepare('speech.wav', terms.limits)
    expect({ treatment, parts: uploads.length }).toEqual({ treatment: 'convert', parts: 4 })
    expectEveryWord(await transcribe(uploads, 4))
  })

  it('have every word within 50 ms of its place after over 100 seams in an MP3', async () => {
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), '-b:a', '48k', at('speech.mp3')])
    const { uploads, treatment } = await prepare('speech.mp3', { ...terms.limits, maximumDurationMs: 2 * MINUTE_MS })
    expect(treatment).toBe('cut')
    expect(uploads.length).toBeGreaterThan(100)
    expectEveryWord(await transcribe(uploads, 8))
  })
})

describe('a large recording', () => {
  test.skipIf(!havePrograms('ffmpeg', 'ffprobe'))(
    'an MP3 that is too large to be held in memory is converted into parts that the service accepts',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'farebox-large-'))
      try {
        const path = join(folder, 'large.mp3')
        const second = generateFrames(40, { bitrate: 320, sampleRate: 48_000 })
        const file = await open(path, 'w')
        let seconds = 0
        for (let bytes = 0; bytes <= HELD_BYTES; bytes += second.length) {
          await file.write(second)
          seconds += 0.96
        }
        await file.close()
        const { uploads, treatment } = await prepareRecording(path, { limits, ffmpeg: await findFfmpeg(), folder })
        expect({ treatment, parts: uploads.length }).toEqual({ treatment: 'convert', parts: 2 })
        const { inspect } = await startInspector()
        for (const { path, durationMs } of uploads)
          expect((await inspect(await readFile(path))).durationMs).toBe(durationMs)
        const total = uploads.reduce((sum, { durationMs }) => sum + durationMs, 0)
        expect(Math.abs(total - seconds * 1000)).toBeLessThanOrEqual(100)
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    },
  )
})

describe('prepared recordings of more than 1 GiB', () => {
  it('are each prepared once, and sent from where they were prepared', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'farebox-large-'))
    const second = generateFrames(40, { bitrate: 320, sampleRate: 48_000 })
    const seconds = Math.floor((HELD_BYTES * 0.9) / second.length)
    // Its tag alone is beyond the limit, so that its frames are copied to a file without it, which needs no ffmpeg.
    const terms = termsOf({
      price_per_audio_hour_usd: '0.122',
      minimum_charge_usd: '0.005034',
      maximum_charge_usd: '1',
      maximum_audio_duration_ms: String(10 * 60 * MINUTE_MS),
      maximum_audio_bytes: seconds * second.length,
    })
    const preparer = new Preparer({ terms, home: null, ffmpegPath: undefined, signal: undefined })
    try {
      const prepared: Awaited<ReturnType<Preparer['measure']>>[] = []
      for (let number = 0; number < 5; number += 1) {
        const path = join(folder, `${number}.mp3`)
        const file = await open(path, 'w')
        await file.write(generateId3v2(new Uint8Array(1024 * 1024)))
        await file.write(generateFrames(40, { bitrate: 320, sampleRate: 48_000 }, path))
        for (let written = 1; written < seconds; written += 1) await file.write(second)
        await file.close()
        prepared.push(await preparer.measure(path, false))
      }
      const preparedAt = Date.now()
      expect(prepared.map(({ treatment, uploads }) => [treatment, uploads.length])).toEqual(
        Array.from({ length: 5 }, () => ['cut', 1]),
      )
      const bytes = prepared.reduce((sum, { uploads }) => sum + (uploads[0]?.bytes ?? 0), 0)
      expect(bytes).toBeGreaterThan(1024 * 1024 * 1024)
      for (const recording of prepared)
        expect((await stat(await preparer.pathOf(recording, 0))).mtimeMs).toBeLessThanOrEqual(preparedAt)
    } finally {
      await preparer.discard()
      await rm(folder, { recursive: true, force: true })
    }
  })
})
