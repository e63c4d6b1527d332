import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import type { FfmpegOptions } from '../../../api/request/audio/ffmpeg-process.ts'
import { createInspectorIdentity } from '../../../api/request/audio/identify-inspector.ts'
import { planDecode } from '../../../api/request/audio/plan-decode.ts'
import { prepareRecording } from '../../../client/audio/prepare-recording.ts'
import { answerTo, startInspector } from '../../support/media/inspect-audio.ts'
import {
  durationMsOfFrames,
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
  SAMPLE_RATES,
} from '../../support/media/mp3-generator.ts'
import { runAdvised } from '../../support/media/run-advised.ts'
import { generateApe, generateId3v2 } from '../../support/media/tag-generator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

/** Enough for one hour of audio, which takes seconds of CPU time. */
const AMPLE_LIMITS = { timeLimitMs: 4 * PATIENCE_MS, processorTimeLimitSeconds: (4 * PATIENCE_MS) / 1000 }
const clip = generateFrames(100)
const hour = generateMp3({ durationMs: 3_600_000, sampleRate: 48_000, bitrate: 32 })
function planOf(audio: Uint8Array) {
  const walk = walkFrames(audio)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  return planDecode(audio, walk)
}
/** Decodes with the options and checks that no child process is left. */
async function decodeAndCheck(options: FfmpegOptions, audio: Uint8Array, signal?: AbortSignal) {
  const processIds: number[] = []
  const decode = createFfmpegDecoder({ ...options, onSpawn: (processId) => processIds.push(processId) })
  try {
    return await decode(audio, planOf(audio), signal === undefined ? {} : { signal })
  } finally {
    expect(processIds.filter(isRunning)).toEqual([])
  }
}
const packagedPath = () => '/bin/ls'
const installed = async () => (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''
const MAXIMUM_BYTES = 26_214_400

describe('the decoder with ffmpeg', () => {
  let folder = ''
  /** Writes a shell script in place of ffmpeg, in a folder with spaces in its name. */
  async function stub(name: string, script: string): Promise<string> {
    const path = join(folder, 'with two spaces', name)
    await writeFile(path, `#!/bin/sh\n${script}\n`)
    await chmod(path, 0o755)
    return path
  }
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-ffmpeg-'))
    await mkdir(join(folder, 'with two spaces'))
  })

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  describe.skipIf(process.platform === 'win32')('a misbehaving child process', () => {
    test('kills ffmpeg at the time limit and reports it as unavailable', async () => {
      const ffmpegPath = await stub('hangs', 'exec sleep 60')
      const decoded = await decodeAndCheck({ ffmpegPath, timeLimitMs: 200 }, clip)
      expect(decoded).toMatchObject({ outcome: 'unavailable' })
    })

    test('kills ffmpeg at its CPU limit and reports the upload as undecodable if silence decodes', async () => {
      const ffmpegPath = await stub('spins', 'while :; do :; done')
      const decoded = await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS, processorTimeLimitSeconds: 1 }, clip)
      expect(decoded).toMatchObject({ outcome: 'undecodable' })
    })

    test('reports the upload as undecodable when ffmpeg crashes on it but not on silence', async () => {
      const script = 'size=$(wc -c); [ "$size" -gt 1000 ] && kill -SEGV $$; echo total_size=6912'
      const ffmpegPath = await stub('crashes sometimes', script)
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'undecodable' })
    })

    test('reports an ffmpeg that somebody else kills as unavailable', async () => {
      const script = 'size=$(wc -c); [ "$size" -gt 1000 ] && kill -KILL $$; echo total_size=6912'
      const ffmpegPath = await stub('killed', script)
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toEqual({
        outcome: 'unavailable',
        reason: expect.stringContaining('SIGKILL'),
      })
    })

    test('reports ffmpeg as unavailable when it crashes on silence too', async () => {
      const ffmpegPath = await stub('crashes always', 'kill -SEGV $$')
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
    })

    test('survives an ffmpeg that closes its input before everything is written', async () => {
      const ffmpegPath = await stub('reads nothing', 'echo total_size=0; exec true')
      const decoded = await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, hour)
      expect(decoded).toMatchObject({ outcome: 'disagrees', decodedSamples: 0 })
    })

    test.each(['exec true', 'echo total_size=N/A; echo progress=end'])(
      'reports an ffmpeg that reports no length as unavailable: %s',
      async (script) => {
        const ffmpegPath = await stub('says nothing', script)
        expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
      },
    )

    test('stops an ffmpeg that never stops decoding at the upper bound', async () => {
      const ffmpegPath = await stub(
        'goes on',
        'echo total_size=2304; sleep 0.1; echo total_size=99999999; exec sleep 60',
      )
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({
        outcome: 'disagrees',
        stopped: true,
      })
    })

    test.each(['exec cat /dev/zero', 'exec yes', 'exec yes total_size=2304'])(
      'stops an ffmpeg that writes endlessly and reports it as unavailable: %s',
      async (script) => {
        const ffmpegPath = await stub('babbles', script)
        expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
      },
    )

    test('does not buffer the errors of an ffmpeg that writes them endlessly', async () => {
      const ffmpegPath = await stub('complains', 'exec cat /dev/zero >&2')
      const before = process.memoryUsage().rss
      const decoded = await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)
      expect(decoded).toMatchObject({ outcome: 'unavailable' })
      expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000)
    })

    test('hides this process’s environment from ffmpeg', async () => {
      process.env['FAREBOX_CANARY'] = 'canary'
      const ffmpegPath = await stub('leaks', 'env | grep -q canary && kill -SEGV $$; echo total_size=235008')
      expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'agrees' })
    })

    test.each(['/nonexistent/ffmpeg', '/etc/passwd'])(
      'reports an ffmpeg that cannot start as unavailable: %s',
      async (ffmpegPath) => {
        expect(await decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, clip)).toMatchObject({ outcome: 'unavailable' })
      },
    )
  })

  describe.skipIf(!havePrograms('ffmpeg'))('the installed ffmpeg', () => {
    test.each([0, 1, 30, 100, 300])('ends ffmpeg when the caller aborts after %i ms', async (delayMs) => {
      const reason = new Error('the caller aborted')
      const controller = new AbortController()
      const ffmpegPath = await installed()
      setTimeout(() => controller.abort(reason), delayMs)
      const decoding = decodeAndCheck({ ffmpegPath, ...AMPLE_LIMITS }, hour, controller.signal)
      await expect(decoding).rejects.toBe(reason)
    })

    test('starts no process for a caller that has already aborted', async () => {
      const processIds: number[] = []
      const decode = createFfmpegDecoder({
        ffmpegPath: await installed(),
        ...AMPLE_LIMITS,
        onSpawn: (processId) => processIds.push(processId),
      })
      const signal = AbortSignal.abort(new Error('before'))
      await expect(decode(clip, planOf(clip), { signal })).rejects.toThrow('before')
      expect(processIds).toEqual([])
    })

    test('stops decoding within a second of audio behind the upper bound', async () => {
      const audio = joinBytes(clip, generateApe(2, { value: hour }), clip)
      const plan = planOf(audio)
      const decoded = await decodeAndCheck({ ffmpegPath: await installed(), ...AMPLE_LIMITS }, audio)
      if (decoded.outcome !== 'disagrees') throw new Error(decoded.outcome)
      expect(decoded.stopped).toBe(true)
      expect(decoded.decodedSamples).toBeLessThan(plan.maximumSamples + plan.sampleRate)
    })

    test('decodes an hour of audio to the sample', async () => {
      const decoded = await decodeAndCheck({ ffmpegPath: await installed(), ...AMPLE_LIMITS }, hour)
      expect(decoded).toEqual({ outcome: 'agrees', decodedSamples: 172_800_000 })
    })

    test('reports an ffmpeg without enough memory to start as unavailable', async () => {
      const options = { ffmpegPath: await installed(), ...AMPLE_LIMITS, memoryLimitBytes: 20_000_000 }
      expect(await decodeAndCheck(options, clip)).toMatchObject({ outcome: 'unavailable' })
    })
  })

  describe('finding ffmpeg', () => {
    test('finds the configured ffmpeg, else the first on the path, else the packaged one', async () => {
      const other = await stub('ffmpeg', 'exit 0')
      const onPath = join(folder, 'with two spaces')
      expect(await findFfmpeg({ configuredPath: '/bin/sh', searchPath: onPath, packagedPath })).toBe('/bin/sh')
      expect(await findFfmpeg({ searchPath: `/nonexistent::${onPath}`, packagedPath })).toBe(other)
      expect(await findFfmpeg({ configuredPath: '', searchPath: '/nonexistent', packagedPath })).toBe('/bin/ls')
      expect(await findFfmpeg({ searchPath: '', packagedPath: () => undefined })).toBeUndefined()
    })

    test('does not replace a configured ffmpeg that is missing', async () => {
      expect(
        await findFfmpeg({ configuredPath: '/nonexistent', searchPath: process.env['PATH'], packagedPath }),
      ).toBeUndefined()
      expect(await findFfmpeg({ configuredPath: '/tmp', packagedPath })).toBeUndefined()
    })

    test('ignores a folder named ffmpeg on the path', async () => {
      await mkdir(join(folder, 'ffmpeg'))
      await symlink('/bin/sh', join(folder, 'link'))
      expect(await findFfmpeg({ searchPath: folder, packagedPath })).toBe('/bin/ls')
    })
  })

  describe('the identity of an inspector', () => {
    test('is the same in two processes with the same ffmpeg, and another with another one', async () => {
      const path = await stub('versions', 'echo "ffmpeg version 5.1.6"')
      const other = await stub('other-versions', 'echo "ffmpeg version 7.1"')
      const identity = await createInspectorIdentity(path)()
      expect(identity).toMatch(/^[0-9a-f]{64}$/)
      expect(await createInspectorIdentity(path)()).toBe(identity)
      expect(await createInspectorIdentity(other)()).not.toBe(identity)
    })

    test('is read again after a failure, and only once after a success', async () => {
      const path = await stub('unready', 'exit 1')
      const identify = createInspectorIdentity(path)
      await expect(identify()).rejects.toThrow('Command failed')
      await stub('unready', 'echo "ffmpeg version 5.1.6"')
      const identity = await identify()
      await stub('unready', 'exit 1')
      expect(await identify()).toBe(identity)
    })
  })
})

describe.skipIf(!havePrograms('ffmpeg', 'lame', 'sox'))('inspecting whole uploads', () => {
  let folder = ''
  const path = (name: string) => join(folder, name)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-inspect-'))
    await runProgram('sox', ['-R', '-n', '-r', '44100', '-c', '2', path('noise.wav'), 'synth', '3', 'pinknoise'])
    await runProgram('lame', ['--quiet', '-b', '128', path('noise.wav'), path('noise.mp3')])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('measures silence at every rate, down to a single frame', async () => {
    for (const sampleRate of SAMPLE_RATES) {
      const expected = `${durationMsOfFrames(1, sampleRate)} ms`
      expect(await answerTo(generateFrames(1, { sampleRate }))).toBe(expected)
    }
    expect(await answerTo(generateFrames(40, { crc: true }))).toBe(`${durationMsOfFrames(40)} ms`)
  })

  test(
    'agrees about every two rates that are joined, whichever comes first',
    { timeout: 8 * PATIENCE_MS },
    async () => {
      const { inspect } = await startInspector()
      const pairs = SAMPLE_RATES.flatMap((first) =>
        SAMPLE_RATES.filter((second) => second !== first).map((second) => [first, second] as const),
      )
      for (const [first, second] of pairs) {
        const [short, long] = [
          generateMp3({ durationMs: 1000, sampleRate: first }),
          generateMp3({ durationMs: 3000, sampleRate: second }),
        ]
        expect((await inspect(joinBytes(short, long))).parts.map(({ sampleRate }) => sampleRate)).toEqual([
          first,
          second,
        ])
      }
    },
  )

  test('accepts exactly 26,214,400 bytes and rejects one more', async () => {
    const frames = generateMp3({ durationMs: 600_000, bitrate: 320 })
    const tag = generateId3v2(new Uint8Array(MAXIMUM_BYTES - frames.length - 10))
    const largest = joinBytes(tag, frames)
    expect(largest.length).toBe(MAXIMUM_BYTES)
    expect(await answerTo(largest)).toBe('600007 ms')
    expect(await answerTo(joinBytes(largest, new Uint8Array(1)))).toMatch(/^audio_too_large: .*26,214,401 bytes/)
  })

  test('rejects an hour and one frame without decoding', async () => {
    const { inspect, spawned } = await startInspector()
    const audio = generateMp3({ durationMs: 3_600_001, sampleRate: 48_000, bitrate: 32 })
    await expect(inspect(audio)).rejects.toMatchObject({
      code: 'audio_too_long',
      message: expect.stringMatching(/^The audio lasts 3,600,024 ms; the limit is 3,600,000 ms\. Split it/),
    })
    expect(spawned).toEqual([])
  })

  test.each(['wav', 'flac', 'ogg', 'm4a', 'aac', 'mp2', 'webm', 'aiff', 'opus', 'ac3'])(
    'rejects %s audio named .mp3',
    async (format) => {
      const muxer = { aac: 'adts', m4a: 'ipod', opus: 'opus' }[format] ?? format
      const output = path(`${format}.mp3`)
      await runProgram('ffmpeg', ['-v', 'error', '-i', path('noise.wav'), '-f', muxer, '-y', output])
      expect(await answerTo(await readFile(output))).toMatch(
        /^unsupported_audio: The upload is not a decodable MP3: found /,
      )
    },
  )

  test('names a command that makes an accepted MP3 of a video', async () => {
    const video = ['-f', 'lavfi', '-i', 'color=s=64x64:d=3']
    await runProgram('ffmpeg', ['-v', 'error', '-i', path('noise.wav'), ...video, '-y', path('video.mp4')])
    const input = await readFile(path('video.mp4'))
    const [output, ...more] = await runAdvised(await answerTo(input), { input })
    expect(more).toEqual([])
    expect(await answerTo(output ?? Buffer.alloc(0))).toMatch(/^30\d\d ms$/)
  })

  test('names a command that makes an accepted MP3 of one that hides audio in a tag', async () => {
    const input = joinBytes(generateFrames(50), generateApe(2, { value: generateMp3({ durationMs: 60_000 }) }))
    const [output] = await runAdvised(await answerTo(input), { input })
    expect(await answerTo(output ?? Buffer.alloc(0))).toMatch(/^\d+ ms$/)
  })

  test('rejects MP3 in a WAVE container', async () => {
    await runProgram('ffmpeg', [
      '-v',
      'error',
      '-i',
      path('noise.mp3'),
      '-c',
      'copy',
      '-f',
      'wav',
      '-y',
      path('riff.mp3'),
    ])
    expect(await answerTo(await readFile(path('riff.mp3')))).toContain('a RIFF/WAVE container')
  })

  test('ignores a Xing frame with a false frame count', async () => {
    const audio = joinBytes(generateInfoFrame('Xing', 10), generateFrames(2000))
    expect(await answerTo(audio)).toBe(`${durationMsOfFrames(2000)} ms`)
  })

  test('rejects audio hidden in a tag that decoders play', async () => {
    const hidden = generateApe(2, { value: generateMp3({ durationMs: 60_000 }) })
    for (const audio of [
      joinBytes(generateFrames(50), hidden),
      joinBytes(generateFrames(50), hidden, generateFrames(50)),
    ]) {
      expect(await answerTo(audio)).toMatch(/^unsupported_audio: .* but it decodes to more than /)
    }
  })

  test('rejects audio hidden in small parts in tags between frames', async () => {
    const hidden = generateApe(2, { value: generateFrames(6, { bitrate: 32 }) })
    const audio = joinBytes(...Array.from({ length: 1500 }, () => joinBytes(generateFrames(1), hidden)))
    expect(await answerTo(audio)).toMatch(/^unsupported_audio: .* but it decodes to more than /)
  })

  test('accepts 1 MB of cover art between joined files', async () => {
    const noise = await readFile(path('noise.mp3'))
    let state = 1
    const art = Uint8Array.from(
      { length: 1_000_000 },
      () => (state = Math.imul(state, 1_664_525) + 1_013_904_223) >>> 24,
    )
    const one = await answerTo(noise)
    const two = await answerTo(joinBytes(noise, generateId3v2(art), noise))
    // The second file's header is a frame.
    expect(Number.parseInt(two, 10)).toBeCloseTo(2 * Number.parseInt(one, 10) + durationMsOfFrames(1), -1)
  })

  test('accepts garbage and cuts within the limits, as ffmpeg does', async () => {
    const noise = await readFile(path('noise.mp3'))
    let state = 7
    const garbage = Uint8Array.from(
      { length: 65_536 },
      () => (state = Math.imul(state, 1_664_525) + 1_013_904_223) >>> 24,
    )
    const part = garbage.subarray(0, 20_000)
    for (const audio of [
      joinBytes(garbage, noise),
      joinBytes(noise, garbage),
      joinBytes(part, noise, part, noise, part),
      noise.subarray(777, noise.length - 99),
      joinBytes(noise.subarray(0, 20_100), noise.subarray(20_700)),
    ]) {
      expect(await answerTo(audio)).toMatch(/^\d+ ms$/)
    }
    expect(await answerTo(joinBytes(garbage, noise, garbage.subarray(0, 1)))).toContain('more than 65,536 bytes')
  })

  test('decodes twenty identical concurrent uploads once, and limits different ones of one client to three quarters of the waiting places', async () => {
    const { inspect, spawned } = await startInspector(2, 4)
    const same = generateMp3({ durationMs: 2000, seed: 'same' })
    await Promise.all(Array.from({ length: 20 }, () => inspect(same)))
    await inspect(same)
    expect(spawned).toHaveLength(1)
    const others = Array.from({ length: 8 }, (_, index) => generateMp3({ durationMs: 2000, seed: `${index}` }))
    const results = await Promise.allSettled(others.map((audio) => inspect(audio)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    const refused = results.find((result) => result.status === 'rejected')
    expect(refused?.reason).toMatchObject({ code: 'overloaded' })
    expect(spawned).toHaveLength(6)
  })
})

const FREE_FORMATS = [
  { rate: 44_100, options: ['-b', '400'] },
  { rate: 44_100, options: ['-t', '-b', '400'] },
  { rate: 16_000, options: ['-b', '37', '-m', 'm'] },
  { rate: 48_000, options: ['-t', '-b', '640', '-m', 's'] },
]

describe.skipIf(!havePrograms('ffmpeg', 'lame', 'mpg123', 'sox'))('free format', () => {
  let folder = ''
  const path = (name: string) => join(folder, name)
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-free-format-'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test.each(FREE_FORMATS)(
    'of lame $options at $rate Hz is refused undecoded, alone and among other frames, with a command that makes an accepted MP3',
    async ({ rate, options }) => {
      await runProgram('sox', ['-R', '-n', '-r', `${rate}`, '-c', '2', path('noise.wav'), 'synth', '3', 'pinknoise'])
      await runProgram('lame', ['--quiet', '--freeformat', ...options, path('noise.wav'), path('free.mp3')])
      await runProgram('lame', ['--quiet', '-b', '64', path('noise.wav'), path('usual.mp3')])
      const [free, usual] = [await readFile(path('free.mp3')), await readFile(path('usual.mp3'))]
      const { inspect, spawned } = await startInspector()
      for (const [audio, seconds] of [
        [free, 3],
        [joinBytes(usual, free), 6],
        [joinBytes(free, usual), 6],
      ] as const) {
        const refused = await inspect(audio).catch((error: Error) => error)
        expect(refused).toMatchObject({
          code: 'unsupported_audio',
          message: expect.stringMatching(/found MP3 frames in free format\. .*mpg123 and "lame --decode" do/),
        })
        const [output] = await runAdvised((refused as Error).message, { input: audio })
        expect(await answerTo(output ?? Buffer.alloc(0))).toMatch(new RegExp(`^${seconds}\\d\\d\\d ms$`))
        await writeFile(path('audio.mp3'), audio)
        const limits = { maximumBytes: MAXIMUM_BYTES, maximumDurationMs: 3_600_000 }
        const prepared = prepareRecording(path('audio.mp3'), { limits, ffmpeg: undefined, folder })
        await expect(prepared).rejects.toMatchObject({
          code: 'not_audio',
          message: expect.stringMatching(/mpg123.*lame/),
        })
      }
      expect(spawned).toEqual([])
    },
  )
})

describe.skipIf(!havePrograms('ffmpeg', 'sox'))(
  'the command of an error message makes what the service accepts',
  () => {
    let folder = ''
    const path = (name: string) => join(folder, name)

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'farebox-advised-'))
      await runProgram('sox', ['-R', '-n', '-r', '48000', '-c', '2', path('source.wav'), 'synth', '3', 'pinknoise'])
    })
    afterAll(async () => {
      await rm(folder, { recursive: true, force: true })
    })

    test.each(['wav', 'm4a', 'flac', 'ogg', 'mp4', 'webm', 'aiff', 'wma', 'mka', 'mp2'])(
      'converts a %s file',
      async (format) => {
        const video = ['mp4', 'webm'].includes(format) ? ['-f', 'lavfi', '-i', 'color=s=64x64:d=3'] : []
        const input = path(`noise.${format}`)
        await runProgram('ffmpeg', ['-v', 'error', '-i', path('source.wav'), ...video, '-y', input])
        const [output, ...more] = await runAdvised(await answerTo(await readFile(input)), {
          input: await readFile(input),
        })
        expect(more).toEqual([])
        expect(await answerTo(output ?? Buffer.alloc(0))).toMatch(/^30\d\d ms$/)
      },
    )

    test('splits an MP3 of more than an hour without its cover', async () => {
      await writeFile(path('hour.mp3'), generateFrames(50_100, { sampleRate: 8000, bitrate: 8, mode: 'mono' }))
      const cover = ['-f', 'lavfi', '-i', 'color=s=64x64:d=0.04', '-map', '0', '-map', '1']
      const withCover = [...cover, '-c:a', 'copy', '-disposition:v', 'attached_pic', '-y', path('cover.mp3')]
      await runProgram('ffmpeg', ['-v', 'error', '-i', path('hour.mp3'), ...withCover])
      const input = await readFile(path('cover.mp3'))
      const parts = await runAdvised(await answerTo(input), { 'input.mp3': input })
      const durations = await Promise.all(parts.map(async (part) => Number.parseInt(await answerTo(part), 10)))
      expect(durations).toEqual([expect.closeTo(3_000_000, -3), expect.closeTo(607_200, -3)])
    })

    test('makes parts of a file that is too large, whatever its length', async () => {
      const input = generateMp3({ durationMs: 3_700_000, bitrate: 64, sampleRate: 22_050 })
      expect(input.length).toBeGreaterThan(26_214_400)
      const parts = await runAdvised(await answerTo(input), { input })
      const durations = await Promise.all(parts.map(async (part) => Number.parseInt(await answerTo(part), 10)))
      expect(durations).toEqual([expect.closeTo(3_000_000, -3), expect.closeTo(700_000, -3)])
    })

    test('keeps an hour of one recording below the limit of an upload', async () => {
      const [output] = await runAdvised(await answerTo(await readFile(path('source.wav'))), {
        input: await readFile(path('source.wav')),
      })
      const bytesPerSecond = (output?.length ?? 0) / 3
      expect(bytesPerSecond * 3600).toBeLessThan(26_214_400)
    })
  },
)
