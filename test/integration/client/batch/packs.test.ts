import { writeFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type BatchFolder, makeBatchFolder } from './support/batch-bench.ts'

/** Four of them cost the minimum together. */
const CLIP_MS = 20_000
const MINIMUM = 5034n
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

/** Packs four clips, then loses two transcripts; the others are changed by their reader. */
async function packAndLoseTwo(): Promise<void> {
  await batch.record(['b.mp3', 'c.mp3', 'd.mp3', 'e.mp3'], CLIP_MS)
  const { outcome } = await batch.run({ pack: true })
  expect(outcome).toMatchObject({ finished: 4, charged: MINIMUM })
  await rm(join(batch.folder, 'b.srt'))
  await rm(join(batch.folder, 'd.srt'))
  await writeFile(join(batch.folder, 'c.srt'), 'corrected')
}

describe('packs', () => {
  it('a pack is sent as it was when clips of it are missing, although others were added', async () => {
    await packAndLoseTwo()
    await batch.record(['a.mp3', 'cc.mp3'], CLIP_MS)
    const { plan, outcome } = await batch.run({ pack: true })
    expect(plan.totals).toMatchObject({ packs: 2, toDo: 4, finished: 2, price: 2n * MINIMUM, toCharge: MINIMUM })
    expect(outcome).toMatchObject({ finished: 4, skipped: 2, charged: MINIMUM, replayed: MINIMUM })
    expect(await batch.paid()).toBe(2n * MINIMUM)
    expect(await readFile(join(batch.folder, 'c.srt'), 'utf8')).toBe('corrected')
  })

  it('is not paid again with the journal deleted, if the clips are the same', async () => {
    await packAndLoseTwo()
    await rm(batch.home, { recursive: true })
    const { outcome } = await batch.run({ pack: true })
    expect(outcome).toMatchObject({ finished: 2, skipped: 2 })
    expect(await batch.paid()).toBe(MINIMUM)
    expect(await readFile(join(batch.folder, 'c.srt'), 'utf8')).toBe('corrected')
  })

  it('a clip that changed keeps its pack from being sent, and the next run packs them as they are', async () => {
    const [first = ''] = await batch.record(['a.mp3', 'b.mp3'], CLIP_MS)
    const { outcome } = await batch.run({ pack: true }, {}, ({ event }) => {
      if (event === 'totals') writeFileSync(first, 'changed')
    })
    expect(outcome.failures.map(({ file, error }) => [file.name, error.code])).toEqual([
      ['a.mp3', 'file_changed'],
      ['b.mp3', 'pack_incomplete'],
    ])
    expect(await batch.paid()).toBe(0n)
    await batch.record(['a.mp3'], CLIP_MS)
    expect((await batch.run({ pack: true })).outcome).toMatchObject({ finished: 2, charged: MINIMUM })
  })
})
