import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AudioError, type Ffmpeg, findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { FareboxError } from '../../../../client/farebox.ts'
import { compareWords } from '../../../support/media/compare-words.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { generateId3v2 } from '../../../support/media/tag-generator.ts'
import { scriptSpeech, waveOfSpeech } from '../../../support/media/tone-voice.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { transcribeUploads } from './support/heard-words.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const speech = scriptSpeech({ durationMs: 8000 })
const canRun = havePrograms('ffmpeg', 'ffprobe')

let folder = ''
let ffmpeg: Ffmpeg
const at = (name: string) => join(folder, name)
const encode = (...args: string[]) => runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), ...args])
const prepare = (name: string, options = {}) =>
  prepareRecording(at(name), { limits, ffmpeg, folder: at('prepared'), ...options })

describe.skipIf(!canRun)('a recording', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-odd-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    await writeFile(at('speech.wav'), waveOfSpeech(speech))
    await encode(at('speech.m4a'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each(['drms', 'enca', 'aavd'])('of the copy protection %s is refused without being decoded', async (entry) => {
    const bought = await readFile(at('speech.m4a'))
    bought.write(entry, bought.indexOf('mp4a', bought.indexOf('stsd')), 'latin1')
    await writeFile(at(`${entry}.m4a`), bought)
    await expect(prepare(`${entry}.m4a`, { ffmpeg: undefined })).rejects.toMatchObject({ code: 'protected_audio' })
  })

  test('that is encrypted is refused, although ffprobe describes it as if it were not', async () => {
    const secret = '0123456789abcdef'.repeat(2)
    const scheme = ['-encryption_scheme', 'cenc-aes-ctr', '-encryption_key', secret, '-encryption_kid', secret]
    await encode(...scheme, at('encrypted.m4a'))
    const refused = prepare('encrypted.m4a')
    await expect(refused).rejects.toMatchObject({ code: 'protected_audio', money: 'none' })
    await expect(refused).rejects.toBeInstanceOf(AudioError)
    await expect(refused).rejects.toBeInstanceOf(FareboxError)
  })

  test('that is an incomplete MP3 is sent with a warning', async () => {
    await encode('-b:a', '64k', at('whole.mp3'))
    await encode('-b:a', '64k', '-write_xing', '0', at('bare.mp3'))
    const half = async (name: string) => (await readFile(at(name))).subarray(0, 32_100)
    await writeFile(at('half.mp3'), await half('whole.mp3'))
    await writeFile(at('half-bare.mp3'), await half('bare.mp3'))
    expect((await prepare('whole.mp3')).warnings).toEqual([])
    expect((await prepare('bare.mp3')).warnings).toEqual([])
    const claims = expect.stringMatching(/^the recording is incomplete: it claims 8\.\d s, and there are [34]\.\d s$/)
    expect(await prepare('half.mp3')).toMatchObject({ treatment: 'send', warnings: [claims] })
    expect((await prepare('half-bare.mp3')).warnings).toEqual([expect.stringContaining('ends within a frame')])
  })

  test('whose sound begins after its picture has the times of the picture', async () => {
    const picture = ['-f', 'lavfi', '-i', 'color=size=32x32:rate=5:duration=9']
    const late = ['-itsoffset', '1.5', '-i', at('speech.wav'), '-c:v', 'mpeg4']
    await runProgram('ffmpeg', ['-v', 'error', ...picture, ...late, at('film.mp4')])
    const { uploads } = await prepare('film.mp4')
    const film = speech.words.map((word) => ({ ...word, startMs: word.startMs + 1500, endMs: word.endMs + 1500 }))
    const { farthestMs, ...counts } = compareWords(await transcribeUploads(uploads), film)
    expect(counts).toMatchObject({ lost: 0, doubled: 0 })
    expect(farthestMs).toBeLessThanOrEqual(50)
  })

  test('of exactly the limit is sent, and one whose tag exceeds it is sent without the tag', async () => {
    const frames = generateMp3({ durationMs: 650_000, bitrate: 320 })
    const fileOf = (bytes: number) => Buffer.concat([generateId3v2(new Uint8Array(bytes - frames.length - 10)), frames])
    await writeFile(at('limit.mp3'), fileOf(limits.maximumBytes))
    await writeFile(at('beyond.mp3'), fileOf(limits.maximumBytes + 1))
    const sent = await prepare('limit.mp3', { ffmpeg: undefined })
    expect(sent).toMatchObject({ treatment: 'send', uploads: [{ path: at('limit.mp3'), bytes: limits.maximumBytes }] })
    const bare = await prepare('beyond.mp3', { ffmpeg: undefined })
    expect(bare).toMatchObject({ treatment: 'cut', uploads: [{ bytes: frames.length, offsetMs: 0 }] })
  })
})
