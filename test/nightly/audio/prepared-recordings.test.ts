import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { AudioError } from '../../../client/audio/audio-error.ts'
import { type Ffmpeg, findFfmpeg } from '../../../client/audio/ffmpeg.ts'
import { expectRecording, prepareRecording } from '../../../client/audio/prepare-recording.ts'
import { createPrepared, writePrepared } from '../../../client/audio/write-prepared.ts'
import { FareboxError } from '../../../client/farebox.ts'
import { waveOf } from '../../support/client/audio/bursts.ts'
import { transcribeUploads } from '../../support/client/audio/heard-words.ts'
import { expectBursts, heard } from '../../support/client/audio/heard.ts'
import { canHaveSmallDisk, runOnSmallDisk } from '../../support/client/small-disk.ts'
import { compareWords } from '../../support/media/compare-words.ts'
import { startInspector } from '../../support/media/inspect-audio.ts'
import { type FrameOptions, generateFrames, generateMp3, joinBytes } from '../../support/media/mp3-generator.ts'
import { generateApe, generateId3v1, generateId3v2 } from '../../support/media/tag-generator.ts'
import { scriptSpeech, waveOfSpeech } from '../../support/media/tone-voice.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

const LIMITS = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const BURSTS = [
  { startMs: 500, endMs: 1500 },
  { startMs: 2000, endMs: 2600 },
]
const canRun = havePrograms('ffmpeg', 'ffprobe')
const PROGRAM = fileURLToPath(new URL('../../support/client/audio/write-on-a-disk.ts', import.meta.url))
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const speech = scriptSpeech({ durationMs: 8000 })

describe.skipIf(!canRun)('prepareRecording', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  let inspect: Awaited<ReturnType<typeof startInspector>>['inspect']
  const at = (name: string) => join(folder, name)
  const prepare = (name: string, options = {}) =>
    prepareRecording(at(name), { limits: LIMITS, ffmpeg, folder: at('prepared'), ...options })

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
    const options = { limits: LIMITS, ffmpeg: undefined, folder: at('prepared') }
    expect(await expectRecording(at('fine.mp3'), 0, options)).toMatchObject({ treatment: 'send', uploads })
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
    expect(await findFfmpeg(at('no-such-program'))).toBeUndefined()
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

describe('writing a prepared recording', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-write-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    await mkdir(at('disk'))
  })

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  describe('a prepared file', () => {
    test('has its name only when it is complete, and leaves nothing behind when it fails', async () => {
      const path = join(at('complete'), 'part.mp3')
      await createPrepared(path, async (temporaryPath) => {
        await writeFile(temporaryPath, 'half')
        expect(await readdir(at('complete'))).not.toContain('part.mp3')
      })
      expect(await readFile(path, 'utf8')).toBe('half')
      const failed = createPrepared(path, async (temporaryPath) => {
        await writeFile(temporaryPath, 'other')
        throw new Error('stopped')
      })
      await expect(failed).rejects.toThrow('stopped')
      expect(await readdir(at('complete'))).toEqual(['part.mp3'])
      expect(await readFile(path, 'utf8')).toBe('half')
    })

    test('that cannot be written is an error of the client that names the file and costs nothing', async () => {
      await writeFile(at('no-folder'), 'a file')
      const failed = writePrepared(join(at('no-folder'), 'part.mp3'), Buffer.from('part'))
      await expect(failed).rejects.toBeInstanceOf(FareboxError)
      await expect(failed).rejects.toMatchObject({
        code: 'folder_unwritable',
        money: 'none',
        message: expect.stringMatching(/part\.mp3: it cannot be written \(\w+\)\. Nothing was charged\. .*TMPDIR/),
      })
    })
  })

  describe.skipIf(!canRun)('a conversion', () => {
    test('ends when it is cancelled, however much is left of it', async () => {
      const controller = new AbortController()
      const { signal } = controller
      const endless = ffmpeg.ffmpeg(['-v', 'error', '-f', 'lavfi', '-i', 'anullsrc', '-f', 'null', '-'], { signal })
      controller.abort(new Error('cancelled'))
      await expect(endless).rejects.toThrow('cancelled')
    })

    test('that is cancelled leaves nothing behind', async () => {
      await writeFile(at('long.wav'), waveOf({ durationMs: 600_000, bursts: [], sampleRate: 8000 }))
      const controller = new AbortController()
      const prepared = at('cancelled')
      const preparing = prepareRecording(at('long.wav'), {
        limits,
        ffmpeg,
        folder: prepared,
        signal: controller.signal,
      })
      const settled = preparing.then(
        () => 'finished',
        (error: unknown) => error,
      )
      await expect.poll(() => readdir(prepared).catch(() => [])).toHaveLength(1)
      controller.abort(new Error('cancelled'))
      expect(await settled).toMatchObject({ message: 'cancelled' })
      expect(await readdir(prepared)).toEqual([])
    })

    test.skipIf(!canHaveSmallDisk())('onto a full disk says so', async () => {
      await writeFile(at('four.wav'), waveOf({ durationMs: 30_000, bursts: [{ startMs: 0, endMs: 30_000 }] }))
      const { stdout, stderr } = await runOnSmallDisk({ size: '64k', at: at('disk') }, [
        process.execPath,
        PROGRAM,
        at('four.wav'),
        join(at('disk'), 'prepared'),
      ])
      expect(stderr).toBe('')
      expect(JSON.parse(stdout)).toMatchObject({
        name: 'AudioError',
        code: 'disk_full',
        money: 'none',
        message: expect.stringMatching(/the disk is full.*Nothing was charged.*Free space/),
      })
    })
  })
})

describe.skipIf(!canRun)('a recording', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)
  const encode = (...args: string[]) => runProgram('ffmpeg', ['-v', 'error', '-i', at('speech.wav'), ...args])
  const prepare = (name: string, options = {}) =>
    prepareRecording(at(name), { limits, ffmpeg, folder: at('prepared'), ...options })

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

/** Arguments of ffmpeg by name, for containers that state no length: of these 33 s it has ideas of up to an hour. */
const WITHOUT_LENGTH: Record<string, readonly string[]> = {
  'bare AAC': ['-f', 'adts'],
  'AAC in LATM': ['-f', 'latm'],
  'bare AC-3': ['-f', 'ac3'],
  'bare E-AC-3': ['-f', 'eac3'],
  'bare MP2': ['-f', 'mp2'],
  'a variable MP3 without a header frame, and 100,000 zeros': ['-q:a', '4', '-write_xing', '0', '-f', 'mp3'],
  'FLAC from a pipe': ['-f', 'flac'],
  'WAV from a pipe': ['-f', 'wav'],
  'WMA from a pipe': ['-f', 'asf'],
  'Matroska from a pipe': ['-f', 'matroska'],
  'a program stream': ['-f', 'mpeg', '-c:a', 'mp2'],
  'a transport stream': ['-f', 'mpegts'],
  'FLV from a pipe': ['-f', 'flv', '-c:a', 'aac'],
}
const LATER = ['-output_ts_offset', '3600']

describe.skipIf(!canRun)('a recording of 20 s of silence and 13 s of noise', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)
  const encode = (args: readonly string[]) =>
    runProgram('ffmpeg', ['-v', 'error', '-i', at('source.wav'), ...args, 'pipe:1'])
  const prepare = async (content: Uint8Array) => {
    await writeFile(at('recording'), content)
    return await prepareRecording(at('recording'), { limits: LIMITS, ffmpeg, folder: at('prepared') })
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-claims-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
    const sounds = ['-f', 'lavfi', '-i', "anoisesrc=d=33:r=48000:seed=1,volume=0:enable='lt(t,20)'"]
    await runProgram('ffmpeg', ['-v', 'error', ...sounds, at('source.wav')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each(Object.entries(WITHOUT_LENGTH))('is whole as %s, and where two are joined', async (name, args) => {
    const first = await encode(args)
    const zeros = new Uint8Array(name.includes('zeros') ? 100_000 : 0)
    const { uploads, warnings } = await prepare(joinBytes(first, zeros))
    expect({ warnings, seconds: Math.round((uploads[0]?.durationMs ?? 0) / 1000) }).toEqual({
      warnings: [],
      seconds: 33,
    })
    const later = await prepare(joinBytes(first, await encode([...LATER, ...args])))
    expect(later.warnings).toEqual([])
    const options = { limits: LIMITS, ffmpeg, folder: at('prepared') }
    expect(await expectRecording(at('recording'), 0, options)).not.toHaveProperty('statedMs')
  })

  test.each([
    ['Matroska', 'mkv'],
    ['Opus', 'opus'],
    ['WMA', 'wma'],
    ['Vorbis', 'ogg'],
    ['MP4', 'm4a'],
  ])('is whole and as long as stated as %s whose clock begins an hour late', async (_, ending) => {
    const path = at(`late.${ending}`)
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('source.wav'), ...LATER, path])
    const options = { limits: LIMITS, ffmpeg, folder: at('prepared') }
    const expected = await expectRecording(path, 0, options)
    expect(expected).toMatchObject({ statedMs: expect.closeTo(33_000, -2), warnings: [] })
    expect((await prepareRecording(path, options)).warnings).toEqual([])
  })

  test.each(['flac', 'au', 'aiff', 'tta', 'mkv', 'wav'])('is incomplete as the half of a %s file', async (ending) => {
    await runProgram('ffmpeg', ['-v', 'error', '-i', at('source.wav'), at(`whole.${ending}`)])
    const whole = await readFile(at(`whole.${ending}`))
    const { warnings } = await prepare(whole.subarray(0, whole.length / 2))
    expect(warnings).toEqual([expect.stringMatching(/it claims 33\.0 s, and \d\d\.\d s can be decoded/)])
  })
})

/** What joined clips of silence alternate in, and what is between them. */
const JOINED: Record<string, readonly [one: FrameOptions, other: FrameOptions, between: Uint8Array]> = {
  'with ID3v2 tags': [{}, {}, generateId3v2(new Uint8Array(100))],
  'with ID3v1 tags': [{}, {}, generateId3v1()],
  'with garbage': [{}, {}, new Uint8Array(300).fill(1)],
  'of two sample rates': [{}, { sampleRate: 22_050 }, new Uint8Array()],
  'of two sample rates, with APE tags': [{}, { sampleRate: 22_050 }, generateApe(2)],
  'of one and two channels, with ID3v2 tags': [{ mode: 'mono' }, {}, generateId3v2(new Uint8Array(100))],
}

describe.skipIf(!canRun)('a hundred joined clips beyond a limit', () => {
  let folder = ''
  let ffmpeg: Ffmpeg
  const at = (name: string) => join(folder, name)
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-joined-'))
    ffmpeg = (await findFfmpeg()) as Ffmpeg
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each(Object.entries(JOINED))('%s are converted without a loss', async (_, [one, other, between]) => {
    const clips = Array.from({ length: 100 }, (_, index) => [
      generateFrames(20, index % 2 === 0 ? one : other),
      between,
    ])
    const joined = joinBytes(...clips.flat())
    const walk = walkFrames(joined)
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    await writeFile(at('joined.mp3'), joined)
    const tooSmall = { ...LIMITS, maximumBytes: joined.length - 1 }
    const { treatment, uploads, warnings } = await prepareRecording(at('joined.mp3'), {
      limits: tooSmall,
      ffmpeg,
      folder: at('prepared'),
    })
    expect({ treatment, count: uploads.length, warnings }).toEqual({ treatment: 'convert', count: 1, warnings: [] })
    // At a change of the rate ffmpeg plays the first frame at the old one, so some are longer and some shorter.
    expect(uploads[0]?.durationMs).toBeGreaterThanOrEqual(walk.durationMs)
    expect(uploads[0]?.durationMs).toBeLessThanOrEqual(walk.durationMs * (walk.parts.length > 1 ? 1.02 : 1) + 100)
  })

  test.skipIf(!havePrograms('lame'))('are heard from their first frames on, at their times', async () => {
    await writeFile(
      at('clip.wav'),
      waveOf({ durationMs: 500, bursts: [{ startMs: 60, endMs: 200 }], sampleRate: 44_100 }),
    )
    await runProgram('lame', ['--quiet', '--tt', 'x', '--id3v2-only', '-b', '64', at('clip.wav'), at('clip.mp3')])
    const clip = await readFile(at('clip.mp3'))
    await writeFile(at('tagged.mp3'), Buffer.concat(Array.from({ length: 100 }, () => clip)))
    const { uploads } = await prepareRecording(at('tagged.mp3'), {
      limits: { ...LIMITS, maximumDurationMs: 20_000 },
      ffmpeg,
      folder: at('prepared'),
    })
    const walk = walkFrames(clip)
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    const found = await heard(uploads, ffmpeg)
    // Parts of 20 s overlap a little, so a burst may be heard twice.
    const starts = [...new Set(found.map(({ startMs }) => Math.round(startMs / 100)))]
    expect(starts.length).toBeGreaterThanOrEqual(100)
    const framesMs = walk.durationMs + (1152 * 1000) / 44_100
    expect(found.at(-1)?.startMs).toBeCloseTo(99 * framesMs + 60, -2)
  })
})
