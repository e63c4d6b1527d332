import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ffmpeg, findFfmpeg, prepareRecording } from '../../../../client/audio/audio.ts'
import { createPrepared, writePrepared } from '../../../../client/audio/write-prepared.ts'
import { FareboxError } from '../../../../client/farebox.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { canHaveSmallDisk, runOnSmallDisk } from '../bad-input/support/small-disk.ts'
import { waveOf } from './support/bursts.ts'

const PROGRAM = fileURLToPath(new URL('support/write-on-a-disk.ts', import.meta.url))
const canRun = havePrograms('ffmpeg', 'ffprobe')
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }

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
    const preparing = prepareRecording(at('long.wav'), { limits, ffmpeg, folder: prepared, signal: controller.signal })
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
