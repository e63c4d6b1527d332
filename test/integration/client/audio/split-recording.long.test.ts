import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, type PrepareOptions, prepareRecording } from '../../../../client/audio/audio.ts'
import { isSilentFrameAt } from '../../../../client/audio/mpeg/info-frame.ts'
import { frameLengthAt } from '../../../../client/audio/mpeg/mpeg-header.ts'
import { startInspector } from '../../../support/media/inspect-audio.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { waveOf } from './support/bursts.ts'
import { expectBursts, heard } from './support/heard.ts'

const canRun = havePrograms('ffmpeg', 'ffprobe')

let folder = ''
let ffmpeg: Ffmpeg
let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
const at = (name: string) => join(folder, name)
const prepare = (name: string, { limits }: Pick<PrepareOptions, 'limits'>) =>
  prepareRecording(at(name), { limits, ffmpeg, folder: at('prepared') })

/** Removes a first frame without sound, which only has bytes that the next ones need. */
function withoutLeadIn(part: Buffer): Buffer {
  return isSilentFrameAt(part, 0) ? part.subarray(frameLengthAt(part, 0, part.length)) : part
}

describe.skipIf(!canRun)('splitting', () => {
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
