import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { copyRecording } from '../../../../client/audio/copy-recording.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
let folder = ''
let ffmpeg: Ffmpeg
const at = (name: string) => join(folder, name)

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('a file in the place of a recording', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-playlists-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    const sound = ['-v', 'error', '-f', 'lavfi', '-i', 'sine=frequency=440:duration=1']
    await runProgram('ffmpeg', [...sound, '-f', 'mpegts', at('private.ts')])
    await runProgram('ffmpeg', [...sound, at('private.mp3')])
    await runProgram('ffmpeg', [...sound, at('own.wav')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  const HLS = '#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n'
  test.each([
    ['an HLS playlist', () => `${HLS}${at('private.ts')}\n#EXT-X-ENDLIST\n`],
    ['an HLS playlist of URLs', () => `${HLS}file:${at('private.mp3')}\n#EXT-X-ENDLIST\n`],
    ['a list for concatenation', () => 'ffconcat version 1.0\nfile private.mp3\n'],
    ['a session description', () => 'v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 4 RTP/AVP 0\n'],
  ])('that is %s does not lead ffmpeg to other files', async (_, content) => {
    await writeFile(at('evil.wav'), content())
    const preparing = prepareRecording(at('evil.wav'), { limits, ffmpeg, folder: at('prepared') })
    await expect(preparing).rejects.toMatchObject({ code: 'not_audio', money: 'none' })
  })

  test('is read by ffmpeg from a copy if that is asked for, which is the same and is removed', async () => {
    const inputs: string[] = []
    const watched: Ffmpeg = {
      ffmpeg: (args, run) => {
        inputs.push(args[args.indexOf('-i') + 1] ?? '')
        return ffmpeg.ffmpeg(args, run)
      },
      ffprobe: (args, run) => {
        inputs.push(args[args.indexOf('-i') + 1] ?? '')
        return ffmpeg.ffprobe(args, run)
      },
    }
    const options = { limits, folder: at('copies'), copiesSource: true }
    const copied = await prepareRecording(at('own.wav'), { ...options, ffmpeg: watched })
    expect(inputs).toHaveLength(2)
    for (const input of inputs) expect(input).toMatch(new RegExp(`^file:${at('copies')}/.+\\.wav$`))
    expect(await readdir(at('copies'))).toHaveLength(1)
    const direct = await prepareRecording(at('own.wav'), { limits, ffmpeg, folder: at('direct') })
    expect(copied.uploads.map(({ sha256 }) => sha256)).toEqual(direct.uploads.map(({ sha256 }) => sha256))
  })

  test('is not copied when it is another one than was measured', async () => {
    const facts = { path: at('own.wav'), bytes: 1, sha256: '0'.repeat(64), modifiedMs: 0 }
    await expect(copyRecording(facts, at('copy.wav'))).rejects.toMatchObject({ code: 'file_changed', money: 'none' })
  })

  test('that is no recording is reported with its own path, not that of the copy', async () => {
    await writeFile(at('text.wav'), 'no recording')
    const preparing = prepareRecording(at('text.wav'), { limits, ffmpeg, folder: at('copies'), copiesSource: true })
    await expect(preparing).rejects.toMatchObject({ code: 'not_audio', path: at('text.wav') })
    await expect(preparing).rejects.toThrow(at('text.wav'))
    expect(await readFile(at('text.wav'), 'utf8')).toBe('no recording')
  })
})
