import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { type FrameTable, framesBetween, frameTableOf } from '../../../../client/audio/mpeg/frame-table.ts'
import { isSilentFrameAt } from '../../../../client/audio/mpeg/info-frame.ts'
import { rateIndexAt, SAMPLES_PER_FRAME } from '../../../../client/audio/mpeg/mpeg-header.ts'
import { walkFrames } from '../../../../client/audio/mpeg/walk-frames.ts'
import { compareWords } from '../../../support/media/compare-words.ts'
import { scriptSpeech, writeSpeech } from '../../../support/media/tone-voice.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { transcribe, transcribeUploads } from './support/heard-words.ts'

const canRun = havePrograms('ffmpeg', 'ffprobe')
const speech = scriptSpeech({ durationMs: 12_000, noisy: [{ startMs: 6000, endMs: 12_000 }] })

let folder = ''
let ffmpeg: Ffmpeg
const at = (name: string) => join(folder, name)

async function tableAt(path: string): Promise<FrameTable> {
  const content = await readFile(path)
  const walk = walkFrames(content)
  const table = walk.outcome === 'mp3' ? frameTableOf(content, walk) : undefined
  if (table === undefined) throw new Error('no frames')
  return table
}

/** What overlaps with the frame before the cut is not exact, nor what the filter bank remembers of it. */
const OVERLAP_SAMPLES = 1152

async function decoded(path: string): Promise<Int16Array> {
  const { stdout } = await ffmpeg.ffmpeg(['-v', 'error', '-f', 'mp3', '-i', path, '-f', 's16le', 'pipe:1'])
  return new Int16Array(stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + stdout.byteLength))
}

describe.skipIf(!canRun)('a cut between frames', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-seam-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    await writeSpeech(at('speech.wav'), speech, 16_000)
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), '-b:a', '32k', at('speech.mp3')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('loses no word, and moves none, although decoders skip a delay only at the beginning of the whole', async () => {
    const limits = { maximumBytes: 26_214_400, maximumDurationMs: 4000 }
    const { uploads } = await prepareRecording(at('speech.mp3'), { limits, ffmpeg, folder: at('prepared') })
    expect(uploads.length).toBeGreaterThanOrEqual(3)
    const { farthestMs, ...counts } = compareWords(await transcribeUploads(uploads), speech.words)
    expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
    expect(farthestMs).toBeLessThanOrEqual(15)
  })

  test('through a word loses it', async () => {
    const table = await tableAt(at('speech.mp3'))
    const [word] = speech.words.slice(9)
    const middleMs = ((word?.startMs ?? 0) + (word?.endMs ?? 0)) / 2
    const cut = Math.round((middleMs * table.sampleRate) / 1000 / table.samplesPerFrame)
    const halves = [framesBetween(table, 0, cut), framesBetween(table, cut, table.frameCount)]
    const heard = await Promise.all(halves.map(transcribe))
    const words = heard.flatMap(({ words = [] }) => words)
    expect(compareWords({ text: '', words }, speech.words)).toMatchObject({ lost: 1, doubled: 0 })
    expect(words.map(({ word }) => word)).not.toContain(word?.text)
  })

  test.each([16_000, 44_100])(
    'is followed by the sound of the whole once the overlap with the frame before has passed: %i Hz',
    async (sampleRate) => {
      const name = `bare-${sampleRate}.mp3`
      const encode = ['-b:a', '32k', '-ar', `${sampleRate}`, '-write_xing', '0']
      await runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), ...encode, at(name)])
      const limits = { maximumBytes: 26_214_400, maximumDurationMs: 2500 }
      const { uploads } = await prepareRecording(at(name), { limits, ffmpeg, folder: at('prepared') })
      const whole = await decoded(at(name))
      let leadIns = 0
      for (const { path, offsetMs } of uploads.slice(1)) {
        const part = await readFile(path)
        const leadInSamples = isSilentFrameAt(part, 0) ? (SAMPLES_PER_FRAME[rateIndexAt(part, 0)] ?? 0) : 0
        if (leadInSamples > 0) leadIns++
        const skipped = leadInSamples + OVERLAP_SAMPLES
        const expected = whole.subarray(Math.round((offsetMs * sampleRate) / 1000) + skipped)
        const sound = (await decoded(path)).subarray(skipped)
        expect(sound.length).toBeGreaterThan(sampleRate / 2)
        const farthest = sound.reduce(
          (most, sample, index) => Math.max(most, Math.abs(sample - (expected[index] ?? 0))),
          0,
        )
        expect(farthest).toBeLessThanOrEqual(1)
      }
      expect(leadIns).toBeGreaterThanOrEqual(2)
    },
  )
})
