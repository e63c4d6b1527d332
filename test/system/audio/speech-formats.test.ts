import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createMp3Converter } from '../../../workers/executions/convert-to-mp3.ts'
import { speechSynthesis } from '../../../workers/executions/speech.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import {
  createOpenAiCompatibleSpeech,
  type OpenAiSpeechSettings,
} from '../../../workers/providers/openai-compatible/speech.ts'
import { startSpeechServer } from '../../support/engines/speech-server.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const run = promisify(execFile)
const SECONDS = 1.5

const nothing = (reason: string) => ['provider_empty_output', 'empty', reason]

/** A tone, as ffmpeg writes them to a pipe, which cannot say its length beforehand. */
async function sound(...args: string[]): Promise<Buffer> {
  const source = `sine=frequency=440:duration=${SECONDS}:sample_rate=24000`
  const { stdout } = await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', source, ...args, 'pipe:1'], {
    encoding: 'buffer',
    maxBuffer: 64 * 1024 * 1024,
  })
  return stdout
}

describe.skipIf(!havePrograms('ffmpeg'))('speech of engines', () => {
  let server: Awaited<ReturnType<typeof startSpeechServer>>
  let ffmpegPath: string | null = null
  beforeAll(async () => {
    server = await startSpeechServer()
    ffmpegPath = (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? null
  })
  afterAll(() => server.stop())

  /** Lets the server answer with this audio, and carries out a call. */
  async function speak(
    audio: Uint8Array,
    format: OpenAiSpeechSettings['format'] = 'mp3',
    path: string | null = ffmpegPath,
  ) {
    server.answer(audio)
    const connection = { baseUrl: `${server.url}/v1`, upstreamModel: 'kokoro', http: createHttp({ fetch }) }
    const deployment = { name: 'engine', speech: createOpenAiCompatibleSpeech(connection, { format }) }
    const effectiveRequest = {
      operation: 'createSpeech',
      model: 'speechvendor/flash-v2.5',
      input: 'Mind the step.',
      voice: 'darian',
      response_format: 'mp3',
      speed_thousandths: 1000,
    }
    const execution = speechSynthesis(createMp3Converter(path ?? undefined))
    const job = { id: 'job', effectiveRequest } as unknown as LeasedJob
    const memory = { extendTo: () => true, shrinkTo: () => undefined }
    const prepared = await execution.prepare({ job, audio: null }, memory)
    return await prepared.call(deployment as unknown as Deployment, { timeoutMs: PATIENCE_MS })
  }

  /** Returns how a call fails whose server answers with this audio. */
  async function failed(audio: Uint8Array, path = ffmpegPath) {
    const outcome = await speak(audio, 'wav', path)
    return 'reason' in outcome ? [outcome.code, outcome.certainty, outcome.reason] : outcome
  }

  const FORMATS: readonly (readonly [string, OpenAiSpeechSettings['format'], readonly string[]])[] = [
    ['WAV as LocalAI sends it', 'wav', ['-f', 'wav']],
    ['WAV of 48 kHz, stereo, in floating point', 'wav', ['-ar', '48000', '-ac', '2', '-c:a', 'pcm_f32le', '-f', 'wav']],
    ['FLAC', 'flac', ['-f', 'flac']],
    ['Opus as Speaches sends it', 'opus', ['-c:a', 'libopus', '-f', 'opus']],
    ['Vorbis', 'opus', ['-c:a', 'libvorbis', '-f', 'ogg']],
  ]
  it.each(FORMATS)('becomes an MP3 of 128 kbit/s and the same length: %s', async (_name, format, args) => {
    const outcome = await speak(await sound(...args), format)
    if (outcome.outcome !== 'produced' || outcome.product.media === null) throw new Error(JSON.stringify(outcome))
    expect(server.requests.at(-1)).toMatchObject({ response_format: format, voice: 'darian' })
    const { bytes, contentType } = outcome.product.media
    const walk = walkFrames(bytes)
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    expect(contentType).toBe('audio/mpeg')
    expect(walk.durationMs).toBeGreaterThanOrEqual(SECONDS * 1000)
    expect(walk.durationMs).toBeLessThan(SECONDS * 1000 + 120)
    expect(walk.unrecognizedBytes).toBe(0)
    expect((bytes.byteLength * 8) / walk.durationMs).toBeGreaterThan(126)
    expect((bytes.byteLength * 8) / walk.durationMs).toBeLessThan(132)
    const stored = { url: 'https://farebox.example/m', expiresAt: new Date(0) }
    expect(outcome.product.result(stored, new Date(0))).toMatchObject({
      data: [{ format: 'mp3', bytes: bytes.byteLength, duration_ms: walk.durationMs }],
    })
  })

  it('stays as it is where it is an MP3, as Kokoro-FastAPI and Speaches send it', async () => {
    const mp3 = await sound('-c:a', 'libmp3lame', '-b:a', '128k', '-write_xing', '0', '-f', 'mp3')
    const outcome = await speak(mp3, 'mp3', null)
    expect(outcome).toMatchObject({ product: { media: { bytes: mp3 } } })
  })

  it('is converted by its bytes, also where a server sends WAV whatever it is asked for', async () => {
    expect(await speak(await sound('-f', 'wav'), 'mp3')).toMatchObject({ outcome: 'produced' })
  })

  it('brings nothing, uncharged, when it cannot be converted', async () => {
    const wav = await sound('-f', 'wav')
    const silent = await sound('-t', '0', '-f', 'wav')
    const from = 'the speech could not be converted from'
    expect(await failed(Buffer.from('RIFF____WAVEfmt CANARY'))).toEqual(nothing(`${from} wav: ffmpeg ended with 1`))
    expect(await failed(Buffer.concat([Buffer.from('fLaC'), wav]))).toEqual(
      nothing(`${from} flac: ffmpeg ended with 1`),
    )
    expect(await failed(silent)).toEqual(nothing(`${from} wav: it has no sound`))
    expect(await failed(wav, null)).toEqual(nothing(`${from} wav: no ffmpeg was found`))
    expect(await failed(wav, '/bin/false')).toEqual(nothing(`${from} wav: ffmpeg ended with 1`))
  })

  it('is never longer than ten minutes', async () => {
    const long = await sound('-af', 'aloop=loop=-1:size=24000', '-t', '601', '-ar', '8000', '-f', 'flac')
    expect(await speak(long, 'flac')).toMatchObject({ code: 'provider_empty_output', usage: { input_characters: 14 } })
  })
})
