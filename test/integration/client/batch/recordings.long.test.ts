import { createHash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { planBatch } from '../../../../client/batch/batch.ts'
import { createFarebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { runProgram } from '../../../support/processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { waveOf } from '../audio/support/bursts.ts'
import { type BatchFolder, makeBatchFolder, OPTIONS } from './support/batch-bench.ts'

let sandbox: SharedSandbox
let batch: BatchFolder

beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(async () => {
  await sandbox.stop()
})
beforeEach(async () => {
  batch = await makeBatchFolder(sandbox)
})
afterEach(async () => {
  await batch.remove()
})

/** Returns the files in temporary folders that were prepared of a recording. */
async function preparedFrom(path: string): Promise<string[]> {
  const sha256 = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  const folders = (await readdir(tmpdir())).filter((name) => name.startsWith('farebox-prepared-'))
  const files = await Promise.all(folders.map((folder) => readdir(join(tmpdir(), folder)).catch(() => [])))
  return files.flat().filter((name) => name.startsWith(sha256))
}

describe.skipIf(!havePrograms('ffmpeg', 'ffprobe'))('recordings that cannot be sent as they are', () => {
  it('a recording beyond the limit is sent in parts, and each part is charged as planned', async () => {
    const durationMs = 15 * 60_000
    await writeFile(join(batch.folder, 'long.mp3'), generateMp3({ durationMs, bitrate: 320 }))
    // No part of it is paid for unless the budget has enough for all.
    const poor = await batch.run({ concurrency: 2 }, { budget: { session: '0.02' } })
    expect(poor.outcome).toMatchObject({ charged: 0n, notBegun: 1, failed: 0, stoppedBy: 'budget' })
    const { plan, outcome, events } = await batch.run({ concurrency: 2 })
    const [file] = plan.files
    expect(file).toMatchObject({ treatment: 'cut', parts: 2, price: plan.totals.price })
    expect(outcome).toMatchObject({ finished: 1, charged: plan.totals.price })
    expect(new Set(events.flatMap((event) => (event.event === 'part' ? [event.part] : [])))).toEqual(new Set([1, 2]))
    expect(await batch.paid()).toBe(plan.totals.price)
    expect(await readFile(join(batch.folder, 'long.srt'), 'utf8')).toMatch(/00:\d\d:\d\d,\d{3} --> /)
    expect(await preparedFrom(join(batch.folder, 'long.mp3'))).toEqual([])
  })

  it('another format is converted once: a plan remembers what it measured', async () => {
    const bursts = [{ startMs: 200, endMs: 800 }]
    await writeFile(join(batch.folder, 'voice.wav'), waveOf({ durationMs: 2000, bursts }))
    await runProgram('ffmpeg', ['-v', 'error', '-i', join(batch.folder, 'voice.wav'), join(batch.folder, 'voice.m4a')])
    const { baseUrl, payer } = sandbox.info
    const farebox = await createFarebox({
      wallet: walletFromPrivateKey(payer.privateKey),
      baseUrl,
      journal: batch.home,
    })
    const path = join(batch.folder, 'voice.wav')
    const source = { path, label: 'voice.wav', name: 'voice.wav' }
    const first = await planBatch(farebox, [source], OPTIONS)
    await first.discard()
    const measured = await readFile(join(batch.home, 'batch', 'measured.ndjson'), 'utf8')
    const second = await planBatch(farebox, [source], OPTIONS)
    await second.discard()
    await farebox.close()
    expect(second.totals).toEqual(first.totals)
    expect(await readFile(join(batch.home, 'batch', 'measured.ndjson'), 'utf8')).toBe(measured)
    // What the plans discarded is prepared another time, with the same bytes.
    const { plan, outcome } = await batch.run()
    expect(plan.files.map(({ treatment, outputs }) => [treatment, outputs])).toEqual([
      ['convert', [join(batch.folder, 'voice.srt')]],
      ['convert', [join(batch.folder, 'voice.wav.srt')]],
    ])
    expect(outcome).toMatchObject({ finished: 2, charged: plan.totals.price })
    expect(await batch.paid()).toBe(plan.totals.price)
  })

  it('says what to install where ffmpeg is missing, and MP3s are transcribed without it', async () => {
    await batch.record(['a.mp3'])
    await writeFile(join(batch.folder, 'voice.wav'), waveOf({ durationMs: 1000, bursts: [] }))
    const { outcome } = await batch.run({ ffmpegPath: join(batch.folder, 'no-such-program') })
    expect(outcome).toMatchObject({ finished: 1, failures: [{ file: { name: 'voice.wav' } }] })
    expect(outcome.failures[0]?.error).toMatchObject({ code: 'ffmpeg_missing', money: 'none' })
    expect(outcome.failures[0]?.error.message).toMatch(/apt-get install ffmpeg/)
  })
})
