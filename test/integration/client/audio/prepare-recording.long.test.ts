import { once } from 'node:events'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, prepareRecording, probeRecording } from '../../../../client/audio/audio.ts'
import { startInspector } from '../../../support/media/inspect-audio.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { waveOf } from './support/bursts.ts'
import { expectBursts, heard } from './support/heard.ts'

const LIMITS = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const BURSTS = [
  { startMs: 500, endMs: 1500 },
  { startMs: 2000, endMs: 2600 },
]
const canRun = havePrograms('ffmpeg', 'ffprobe')

let folder = ''
let ffmpeg: Ffmpeg
let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
const at = (name: string) => join(folder, name)
const prepare = (name: string, options = {}) =>
  prepareRecording(at(name), { limits: LIMITS, ffmpeg, folder: at('prepared'), ...options })

describe.skipIf(!canRun)('prepareRecording', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-prepare-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    inspect = (await startInspector()).inspect
    await writeFile(at('speech.wav'), waveOf({ durationMs: 3000, bursts: BURSTS }))
    for (const name of ['speech.m4a', 'speech.flac', 'speech.ogg', 'speech.mp4', 'speech.webm'])
      await runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), at(name)])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each(['wav', 'm4a', 'flac', 'ogg', 'mp4', 'webm'])(
    'converts %s into an MP3 that the service measures equally, with the sound at its times',
    async (ending) => {
      const { uploads, treatment, warnings } = await prepare(`speech.${ending}`)
      expect({ treatment, count: uploads.length, warnings }).toEqual({ treatment: 'convert', count: 1, warnings: [] })
      const [upload] = uploads
      if (upload === undefined) throw new Error('no upload')
      expect((await inspect(await readFile(upload.path))).durationMs).toBe(upload.durationMs)
      expectBursts(await heard(uploads, ffmpeg), BURSTS)
    },
  )

  test('converts the same recording into the same bytes, whatever its name', async () => {
    const [first] = (await prepare('speech.flac')).uploads
    await copyFile(at('speech.flac'), at('renamed.mp3'))
    const [again] = (await prepare('renamed.mp3', { folder: at('elsewhere') })).uploads
    expect(again?.sha256).toBe(first?.sha256)
  })

  test('sends an MP3 within the limits as it is, without ffmpeg', async () => {
    const mp3 = generateMp3({ durationMs: 2000 })
    await writeFile(at('fine.mp3'), mp3)
    const { uploads, treatment } = await prepare('fine.mp3', { ffmpeg: undefined })
    expect(treatment).toBe('send')
    expect(uploads).toMatchObject([{ path: at('fine.mp3'), bytes: mp3.length, offsetMs: 0 }])
    expect((await inspect(mp3)).durationMs).toBe(uploads[0]?.durationMs)
    expect(await probeRecording(at('fine.mp3'), { limits: LIMITS, ffmpeg: undefined })).toMatchObject({
      durationMs: uploads[0]?.durationMs,
      isExact: true,
    })
  })

  test('says what to install when ffmpeg is needed and missing', async () => {
    await writeFile(at('long.mp3'), generateMp3({ durationMs: 5000 }))
    const short = { ...LIMITS, maximumDurationMs: 2000 }
    for (const [name, limits] of [
      ['speech.wav', LIMITS],
      ['long.mp3', short],
    ] as const) {
      await expect(prepare(name, { ffmpeg: undefined, limits })).rejects.toMatchObject({
        code: 'ffmpeg_missing',
        message: expect.stringContaining('apt-get install ffmpeg'),
      })
    }
    expect(await findFfmpeg({ ffmpegPath: at('no-such-program') })).toBeUndefined()
  })

  test('refuses what is no recording, has no sound, or is incomplete, and names the reason', async () => {
    await writeFile(at('text.mp3'), 'This is a letter and no recording. '.repeat(100))
    await writeFile(at('nothing.wav'), waveOf({ durationMs: 0, bursts: [] }))
    await runProgram('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'color=d=0.2:s=16x16', at('picture.mp4')])
    const m4a = await readFile(at('speech.m4a'))
    await writeFile(at('cut.m4a'), m4a.subarray(0, Math.floor(m4a.length / 2)))
    for (const [name, code] of [
      ['text.mp3', 'not_audio'],
      ['nothing.wav', 'no_audio'],
      ['picture.mp4', 'no_audio'],
      ['cut.m4a', 'damaged_audio'],
    ] as const) {
      await expect(prepare(name)).rejects.toMatchObject({ code, path: at(name), money: 'none' })
    }
  })

  test('warns of a recording that ends before it claims to', async () => {
    await writeFile(
      at('minute.wav'),
      waveOf({ durationMs: 60_000, bursts: [{ startMs: 0, endMs: 60_000 }], sampleRate: 8000 }),
    )
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('minute.wav'), at('minute.flac')])
    const flac = await readFile(at('minute.flac'))
    await writeFile(at('half.flac'), flac.subarray(0, Math.floor(flac.length / 2)))
    const { warnings } = await prepare('half.flac')
    expect(warnings).toEqual([expect.stringMatching(/incomplete or damaged: it claims 60\.0 s, and [23]\d\.\d s/)])
    const wav = await readFile(at('minute.wav'))
    await writeFile(at('half.wav'), wav.subarray(0, Math.floor(wav.length / 2)))
    expect((await prepare('half.wav')).warnings).toEqual([expect.stringContaining('it claims 60.0 s, and 30.')])
    expect((await prepare('minute.wav')).warnings).toEqual([])
  })

  test('opens no connection for a playlist', async () => {
    let connections = 0
    const server = createServer((socket) => {
      connections++
      socket.destroy()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await writeFile(
      at('list.m3u8'),
      `#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\nhttp://127.0.0.1:${port}/speech.mp3\n#EXT-X-ENDLIST\n`,
    )
    await expect(prepare('list.m3u8')).rejects.toMatchObject({ money: 'none' })
    server.close()
    expect(connections).toBe(0)
  })
})
