import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answerTo } from '../../support/media/inspect-audio.ts'
import { generateFrames, generateMp3 } from '../../support/media/mp3-generator.ts'
import { runAdvised } from '../../support/media/run-advised.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

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
