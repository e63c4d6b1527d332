import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { compareWords } from '../../../support/media/compare-words.ts'
import { startInspector } from '../../../support/media/inspect-audio.ts'
import { scriptSpeech, writeSpeech } from '../../../support/media/tone-voice.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { transcribeUploads } from './support/heard-words.ts'

const canRun = havePrograms('ffmpeg', 'ffprobe')
const FARTHEST_MS = 50
/** In noise there is no silence to cut at. */
const speech = scriptSpeech({ durationMs: 60_000, noisy: [{ startMs: 20_000, endMs: 45_000 }] })
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 7000 }

let folder = ''
let ffmpeg: Ffmpeg
let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
const at = (name: string) => join(folder, name)

describe.skipIf(!canRun)('words at the seams', () => {
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
