import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { createFfmpegDecoder } from '../../api/request/audio/decode-with-ffmpeg.ts'
import { findFfmpeg } from '../../api/request/audio/find-ffmpeg.ts'
import { planDecode } from '../../api/request/audio/plan-decode.ts'
import { generateMp3, joinBytes, MPEG1_BITRATES, MPEG2_BITRATES, SAMPLE_RATES } from '../support/media/mp3-generator.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { havePrograms } from '../support/processes/optional-program.ts'
import { runProgram } from '../support/processes/run-program.ts'

interface EncodedFile {
  readonly name: string
  readonly path: string
  readonly sampleRate: number
  /** Per channel, as mpg123 decodes them. */
  readonly decodedSamples: number
}
/** Options of lame by name. Each is encoded at every rate, so the bitrates are valid for all three MPEG versions. */
const VARIANTS: Record<string, readonly string[]> = {
  'constant, mono': ['-b', '64', '-m', 'm'],
  'constant, stereo, no Info frame': ['-t', '-b', '64', '-m', 's'],
  'constant, joint stereo, CRC': ['-p', '-b', '64', '-m', 'j'],
  'constant, forced joint stereo': ['-b', '128', '-m', 'f'],
  'constant, dual channel, no Info frame, CRC': ['-t', '-p', '-b', '96', '-m', 'd'],
  'variable, Xing frame': ['-V', '4', '-m', 'j'],
  'variable, no Xing frame': ['-t', '-V', '2', '-m', 's'],
  average: ['--abr', '56', '-m', 'j'],
  'ID3v1 and ID3v2': ['--add-id3v2', '--pad-id3v2-size', '5000', '--tt', 'Title', '-b', '64', '-m', 's'],
}
const ONE_SECOND = 1.23
const TEN_MILLISECONDS = 0.01
const parallel = pLimit(2)
// The oracle is mpg123, a decoder independent of ours and ffmpeg's, configured not to trim LAME's delay and padding. It
// then writes every sample of every frame except the Xing, Info or VBRI frame, so the counts must be equal.
async function decodedSamplesOf(path: string): Promise<number> {
  const pcm = await runProgram('mpg123', ['-q', '--no-gapless', '--mono', '-e', 's16', '-s', path])
  return pcm.length / 2
}

describe.skipIf(!havePrograms('ffmpeg', 'lame', 'mpg123', 'sox'))('files of real encoders', () => {
  let folder = ''
  const files: EncodedFile[] = []

  async function encode(name: string, sampleRate: number, seconds: number, options: readonly string[]) {
    const path = join(folder, `${sampleRate} ${name}.mp3`)
    const wave = join(folder, `${sampleRate}-${seconds}.wav`)
    await runProgram('lame', ['--quiet', ...options, '--resample', String(sampleRate / 1000), wave, path])
    files.push({
      name: `${sampleRate} Hz: ${name}`,
      path,
      sampleRate,
      decodedSamples: await decodedSamplesOf(path),
    })
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-audio-'))
    const jobs = SAMPLE_RATES.map(async (sampleRate) => {
      for (const seconds of [ONE_SECOND, TEN_MILLISECONDS]) {
        const wave = join(folder, `${sampleRate}-${seconds}.wav`)
        const synth = ['synth', String(seconds), 'pinknoise', 'sine', '440']
        await parallel(runProgram, 'sox', ['-R', '-n', '-r', String(sampleRate), '-c', '2', wave, ...synth])
      }
      const bitrates = sampleRate >= 32_000 ? MPEG1_BITRATES : MPEG2_BITRATES
      const ends = { lowest: bitrates[0], highest: bitrates[13] }
      await Promise.all([
        ...Object.entries(VARIANTS).map(([name, options]) => parallel(encode, name, sampleRate, ONE_SECOND, options)),
        ...Object.entries(ends).map(([name, bitrate]) =>
          parallel(encode, `${name} bitrate`, sampleRate, ONE_SECOND, ['-b', String(bitrate), '-m', 'm']),
        ),
        parallel(encode, '10 ms', sampleRate, TEN_MILLISECONDS, ['-b', '64', '-m', 's']),
        parallel(encode, '10 ms, no Info frame', sampleRate, TEN_MILLISECONDS, ['-t', '-b', '32', '-m', 'm']),
      ])
    })
    await Promise.all(jobs)
  })

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('counts exactly the samples that mpg123 decodes', async () => {
    const wrong: string[] = []
    for (const file of files) {
      const walk = walkFrames(await readFile(file.path))
      const durationMs = Math.ceil((file.decodedSamples * 1000) / file.sampleRate)
      const isCorrect =
        walk.outcome === 'mp3' &&
        walk.parts.length === 1 &&
        walk.parts[0]?.samples === file.decodedSamples &&
        walk.durationMs === durationMs &&
        walk.unrecognizedBytes === 0
      if (!isCorrect) wrong.push(`${file.name}: ${file.decodedSamples} decoded, ${JSON.stringify(walk)}`)
    }
    expect(wrong).toEqual([])
    expect(files).toHaveLength(9 * 13)
  })

  test('expects what ffmpeg decodes, to the sample', async () => {
    const ffmpegPath = await findFfmpeg({ searchPath: process.env['PATH'] })
    const decode = createFfmpegDecoder({ ffmpegPath: ffmpegPath ?? '', timeLimitMs: PATIENCE_MS })
    const check = async (file: EncodedFile) => {
      const audio = await readFile(file.path)
      const walk = walkFrames(audio)
      if (walk.outcome !== 'mp3') return walk.found
      const decoded = await decode(audio, planDecode(audio, walk))
      const isCorrect = decoded.outcome === 'agrees' && decoded.decodedSamples === walk.parts[0]?.samples
      return isCorrect ? undefined : `${file.name}: ${JSON.stringify(decoded)}`
    }
    const wrong = await Promise.all(files.map((file) => parallel(check, file)))
    expect(wrong.filter((message) => message !== undefined)).toEqual([])
  })

  test('counts joined files of two rates each at its own rate, as ffmpeg does', async () => {
    const decode = createFfmpegDecoder({
      ffmpegPath: (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? '',
      timeLimitMs: PATIENCE_MS,
    })
    const joinable = files.filter(
      (file) => file.name.endsWith('ID3v1 and ID3v2') || file.name.endsWith('Hz: constant, mono'),
    )
    const pairs = joinable.map((file, index) => [file, joinable[(index * 7 + 5) % joinable.length] ?? file] as const)
    const check = async ([first, second]: readonly [EncodedFile, EncodedFile]) => {
      const audio = joinBytes(await readFile(first.path), await readFile(second.path))
      const walk = walkFrames(audio)
      if (walk.outcome !== 'mp3') return walk.found
      const seconds = first.decodedSamples / first.sampleRate + second.decodedSamples / second.sampleRate
      const decoded = await decode(audio, planDecode(audio, walk))
      const isCorrect = decoded.outcome === 'agrees' && Math.abs(walk.durationMs - seconds * 1000) < 1.001
      return isCorrect ? undefined : `${first.name} and ${second.name}: ${JSON.stringify({ decoded, walk })}`
    }
    const wrong = await Promise.all(pairs.map((pair) => parallel(check, pair)))
    expect(wrong.filter((message) => message !== undefined)).toEqual([])
  })

  test('decodes an hour of audio to the sample', async () => {
    const hour = generateMp3({ durationMs: 3_600_000, sampleRate: 48_000, bitrate: 32 })
    const walk = walkFrames(hour)
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    const decode = createFfmpegDecoder({
      ffmpegPath: (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? '',
      timeLimitMs: 4 * PATIENCE_MS,
      processorTimeLimitSeconds: (4 * PATIENCE_MS) / 1000,
    })
    expect(await decode(hour, planDecode(hour, walk))).toEqual({ outcome: 'agrees', decodedSamples: 172_800_000 })
  })
})
