import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Ffmpeg,
  findFfmpeg,
  preparePacks,
  prepareRecording,
  stitch,
  takeApart,
} from '../../../../client/audio/audio.ts'
import { decodeFrames } from '../../../../client/audio/ffmpeg/find-silences.ts'
import { compareWords } from '../../../support/media/compare-words.ts'
import { startInspector } from '../../../support/media/inspect-audio.ts'
import { scriptSpeech, waveOfSpeech } from '../../../support/media/tone-voice.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { burstsIn, waveOf } from './support/bursts.ts'
import { transcribe } from './support/heard-words.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const prices = { pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' }
const canRun = havePrograms('ffmpeg', 'ffprobe')
let folder = ''
let ffmpeg: Ffmpeg

/** Returns three prepared clips, the first with one burst, the last with three. */
async function prepared() {
  const recordings = []
  for (let index = 0; index < 3; index++) {
    const bursts = Array.from({ length: index + 1 }, (_, burst) => ({
      startMs: 200 + burst * 300,
      endMs: 400 + burst * 300,
    }))
    const path = join(folder, `clip-${index}.wav`)
    await writeFile(path, waveOf({ durationMs: 2000 + index * 100, bursts }))
    const { uploads } = await prepareRecording(path, { limits, ffmpeg, folder })
    const [upload] = uploads
    if (upload === undefined) throw new Error('no upload')
    recordings.push({ upload, bursts })
  }
  return recordings
}

describe.skipIf(!canRun)('preparePacks', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-pack-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('joins clips into one MP3 that the service measures equally, and finds each sound in its clip', async () => {
    const { packs, single } = await preparePacks(await prepared(), { limits, prices, folder })
    const [pack] = packs
    if (pack === undefined) throw new Error('no pack')
    expect({ packs: packs.length, single }).toEqual({ packs: 1, single: [] })
    const content = await readFile(pack.upload.path)
    const { inspect } = await startInspector()
    expect((await inspect(content)).durationMs).toBe(pack.upload.durationMs)

    const { samples, sampleRate } = await decodeFrames(content, { path: pack.upload.path, ffmpeg })
    const words = burstsIn(samples, sampleRate).map(({ startMs, endMs }, index) => ({
      word: `w${index}`,
      start: startMs / 1000,
      end: endMs / 1000,
    }))
    const apart = takeApart({ text: '', words }, pack.spans)
    for (const [index, { upload, bursts }] of pack.clips.entries()) {
      const transcript = apart[index]
      if (transcript === undefined) throw new Error('no transcript')
      expect(transcript.wordsInSilence).toBe(0)
      const { durationMs, offsetMs } = upload
      const { words: own = [] } = stitch([{ transcript, durationMs, offsetMs }])
      expect(own).toHaveLength(bursts.length)
      for (const [burst, { startMs }] of bursts.entries())
        expect(Math.abs((own[burst]?.start ?? -1) * 1000 - startMs)).toBeLessThanOrEqual(20)
    }
  })

  test('has the words of clips at their times, although decoders skip the delay of LAME only in a clip alone', async () => {
    const clips = []
    for (const number of [1, 2]) {
      const speech = scriptSpeech({ durationMs: 4000, seed: number })
      const wave = join(folder, `speech-${number}.wav`)
      await writeFile(wave, waveOfSpeech(speech))
      const path = join(folder, `speech-${number}.mp3`)
      await runProgram('ffmpeg', ['-v', 'error', '-i', wave, '-b:a', '32k', path])
      const [upload] = (await prepareRecording(path, { limits, ffmpeg: undefined, folder })).uploads
      if (upload === undefined) throw new Error('no upload')
      clips.push({ upload, speech })
    }
    const [pack] = (await preparePacks(clips, { limits, prices, folder })).packs
    if (pack === undefined) throw new Error('no pack')
    const apart = takeApart(await transcribe(await readFile(pack.upload.path)), pack.spans)
    for (const [index, { speech }] of pack.clips.entries()) {
      const { farthestMs, ...counts } = compareWords(apart[index] ?? { text: '' }, speech.words)
      expect(counts).toEqual({ words: speech.words.length, lost: 0, doubled: 0, invented: 0 })
      expect(farthestMs).toBeLessThanOrEqual(15)
    }
  })
})
