import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { startInspector } from '../../../support/media/inspect-audio.ts'
import { generateFrames } from '../../../support/media/mp3-generator.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const HELD_BYTES = 256 * 1024 * 1024

test.skipIf(!havePrograms('ffmpeg', 'ffprobe'))(
  'an MP3 that is too large to be held in memory is converted into parts that the service accepts',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'farebox-large-'))
    try {
      const path = join(folder, 'large.mp3')
      const second = generateFrames(40, { bitrate: 320, sampleRate: 48_000 })
      const file = await open(path, 'w')
      let seconds = 0
      for (let bytes = 0; bytes <= HELD_BYTES; bytes += second.length) {
        await file.write(second)
        seconds += 0.96
      }
      await file.close()
      const { uploads, treatment } = await prepareRecording(path, { limits, ffmpeg: await findFfmpeg(), folder })
      expect({ treatment, parts: uploads.length }).toEqual({ treatment: 'convert', parts: 2 })
      const { inspect } = await startInspector()
      for (const { path, durationMs } of uploads)
        expect((await inspect(await readFile(path))).durationMs).toBe(durationMs)
      const total = uploads.reduce((sum, { durationMs }) => sum + durationMs, 0)
      expect(Math.abs(total - seconds * 1000)).toBeLessThanOrEqual(100)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
)
