import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

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
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

const MAXIMUM_BYTES = 26_214_400

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
    expect(await answerTo(generateFrames(40, { freeFormatBytes: 600 }))).toBe(`${durationMsOfFrames(40)} ms`)
  })

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
    expect(Number.parseInt(two, 10)).toBeCloseTo(2 * Number.parseInt(one, 10), -1)
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
