import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { frameLengthAt, hasCrcAt, rateIndexAt, SAMPLES_PER_FRAME, sideInformationBytesAt } from '#mp3/mpeg-header.ts'
import { walkFrames } from '#mp3/walk-frames.ts'
import { type Ffmpeg, findFfmpeg } from '../../../client/audio/ffmpeg.ts'
import { type FrameTable, framesBetween, frameTableOf } from '../../../client/audio/frame-table.ts'
import { type PrepareOptions, prepareRecording } from '../../../client/audio/prepare-recording.ts'
import { waveOf } from '../../support/client/audio/bursts.ts'
import { transcribe, transcribeUploads } from '../../support/client/audio/heard-words.ts'
import { expectBursts, heard } from '../../support/client/audio/heard.ts'
import { compareWords } from '../../support/media/compare-words.ts'
import { startInspector } from '../../support/media/inspect-audio.ts'
import { scriptSpeech, writeSpeech } from '../../support/media/tone-voice.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

const canRun = havePrograms('ffmpeg', 'ffprobe')
/** Returns whether the side information of the first frame is all zero, so that decoders play silence. */
function beginsSilent(part: Buffer): boolean {
  const start = hasCrcAt(part, 0) ? 6 : 4
  return part.subarray(start, start + sideInformationBytesAt(part, 0)).every((byte) => byte === 0)
}
/** Removes a first frame without sound, which only has bytes that the next ones need. */
function withoutLeadIn(part: Buffer): Buffer {
  return beginsSilent(part) ? part.subarray(frameLengthAt(part, 0, part.length)) : part
}
const FARTHEST_MS = 50
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 7000 }
async function tableAt(path: string): Promise<FrameTable> {
  const content = await readFile(path)
  const walk = walkFrames(content)
  const table = walk.outcome === 'mp3' ? frameTableOf(content, walk) : undefined
  if (table === undefined) throw new Error('no frames')
  return table
}
/** What overlaps with the frame before the cut is not exact, nor what the filter bank remembers of it. */
const OVERLAP_SAMPLES = 1152

describe.skipIf(!canRun)('splitting', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
  const at = (name: string) => join(folder, name)
  const prepare = (name: string, { limits }: Pick<PrepareOptions, 'limits'>) =>
    prepareRecording(at(name), { limits, ffmpeg, folder: at('prepared') })

  /** Sound with pauses of 300 ms, and of 600 ms after each fourth stretch. */
  const bursts = Array.from({ length: 20 }, (_, index) => ({
    startMs: index * 1600 + 300,
    endMs: index * 1600 + (index % 4 === 3 ? 1300 : 1600),
  }))
  const durationMs = 32_500
  const limits = { maximumBytes: 26_214_400, maximumDurationMs: 10_000 }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-split-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    inspect = (await startInspector()).inspect
    await writeFile(at('long.wav'), waveOf({ durationMs, bursts, sampleRate: 44_100 }))
    const encode = ['-v', 'error', '-i', at('long.wav'), '-b:a', '64k', '-map_metadata', '-1']
    await runProgram('ffmpeg', [...encode, '-write_xing', '0', at('long.mp3')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each([
    ['long.mp3', 'cut', 25],
    ['long.wav', 'convert', 0],
  ])(
    'keeps every sound of %s whole and at its time, in parts that the service accepts',
    async (name, treatment, late) => {
      const prepared = await prepare(name, { limits })
      expect(prepared.treatment).toBe(treatment)
      expect(prepared.uploads.length).toBeGreaterThanOrEqual(4)
      for (const { path, durationMs } of prepared.uploads) {
        expect((await inspect(await readFile(path))).durationMs).toBe(durationMs)
        expect(durationMs).toBeLessThanOrEqual(limits.maximumDurationMs)
      }
      const expected = bursts.map(({ startMs, endMs }) => ({ startMs: startMs + late, endMs: endMs + late }))
      expectBursts(await heard(prepared.uploads, ffmpeg), expected)
    },
  )

  test('does not encode the frames of an MP3 again', async () => {
    const { uploads } = await prepare('long.mp3', { limits })
    const parts = await Promise.all(uploads.map(({ path }) => readFile(path)))
    const source = await readFile(at('long.mp3'))
    const kept = parts.map((part, index) => (index === 0 ? part : withoutLeadIn(part)))
    expect(source.includes(Buffer.concat(kept))).toBe(true)
  })

  test('splits where a limit of bytes is exceeded', async () => {
    const byBytes = { maximumBytes: 100_000, maximumDurationMs: 3_600_000 }
    const { uploads } = await prepare('long.mp3', { limits: byBytes })
    for (const { bytes } of uploads) expect(bytes).toBeLessThanOrEqual(byBytes.maximumBytes)
    expect(uploads.length).toBeGreaterThanOrEqual(3)
  })

  test('cuts at the quietest moment where nothing is silent', async () => {
    const quiet = { startMs: 8700, endMs: 9000 }
    const background = (timeMs: number) => (timeMs >= quiet.startMs && timeMs < quiet.endMs ? 1500 : 9000)
    await writeFile(at('noise.wav'), waveOf({ durationMs: 15_000, bursts: [], background }))
    const { uploads } = await prepare('noise.wav', { limits })
    const [, second] = uploads
    expect(uploads).toHaveLength(2)
    expect(second?.offsetMs).toBeGreaterThan(quiet.startMs)
    expect(second?.offsetMs).toBeLessThan(quiet.endMs)
  })
})

describe.skipIf(!canRun)('words at the seams', () => {
  /** In noise there is no silence to cut at. */
  const speech = scriptSpeech({ durationMs: 60_000, noisy: [{ startMs: 20_000, endMs: 45_000 }] })
  let folder = ''
  let ffmpeg: Ffmpeg
  let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
  const at = (name: string) => join(folder, name)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-seams-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    inspect = (await startInspector()).inspect
    await writeSpeech(at('speech.wav'), speech, 44_100)
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each([
    ['MP3 with the delay of LAME at 44.1 kHz', 'mp3', ['-b:a', '64k']],
    ['MP3 with the delay of LAME at 16 kHz', 'mp3', ['-b:a', '32k', '-ar', '16000']],
    ['MP3 without a header frame', 'mp3', ['-b:a', '64k', '-write_xing', '0']],
    ['MP3 of a variable bit rate', 'mp3', ['-q:a', '5']],
    ['MP3 at 8 kHz, with frames of 72 ms', 'mp3', ['-b:a', '32k', '-ar', '8000']],
    ['MP3 in joint stereo with a full bit reservoir', 'mp3', ['-b:a', '96k', '-ac', '2']],
    ['M4A', 'm4a', ['-b:a', '64k']],
    ['Vorbis', 'ogg', ['-c:a', 'libvorbis', '-b:a', '64k']],
    ['WAV', 'wav', []],
  ])('are within 50 ms of their place, none lost or doubled: %s', async (name, ending, encoding) => {
    const path = at(`${name.replaceAll(' ', '-')}.${ending}`)
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), ...encoding, path])
    const { uploads, warnings } = await prepareRecording(path, { limits, ffmpeg, folder: at('prepared') })
    expect(warnings).toEqual([])
    expect(uploads.length).toBeGreaterThanOrEqual(9)
    for (const { path, durationMs } of uploads) {
      expect((await inspect(await readFile(path))).durationMs).toBe(durationMs)
      expect(durationMs).toBeLessThanOrEqual(limits.maximumDurationMs)
    }
    const { farthestMs, ...counts } = compareWords(await transcribeUploads(uploads), speech.words)
    expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
    expect(farthestMs).toBeLessThanOrEqual(FARTHEST_MS)
  })
})

describe.skipIf(!canRun)('a cut between frames', () => {
  const speech = scriptSpeech({ durationMs: 12_000, noisy: [{ startMs: 6000, endMs: 12_000 }] })
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)
  async function decoded(path: string): Promise<Int16Array> {
    const { stdout } = await ffmpeg.ffmpeg(['-v', 'error', '-f', 'mp3', '-i', path, '-f', 's16le', 'pipe:1'])
    return new Int16Array(stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + stdout.byteLength))
  }

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
        const leadInSamples = beginsSilent(part) ? (SAMPLES_PER_FRAME[rateIndexAt(part, 0)] ?? 0) : 0
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
