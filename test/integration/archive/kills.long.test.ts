import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { createPointControl } from '../../resilience/processes/reach-point.ts'
import { NEXT_MONTH, oldCalls } from '../../support/ledger/old-calls.ts'
import { createTestArchive, type TestArchive } from '../../support/ledger/test-archive.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { COMPILE_CACHE } from '../../support/processes/run-program.ts'

const FIXTURE = fileURLToPath(new URL('archive-process.fixture.ts', import.meta.url))

/** Every step of a run: a process that is killed there has done everything before it and nothing after it. */
const POINTS = [
  'readDocuments.before',
  'readDocuments.after',
  'objects.put.after',
  'objects.get.after',
  'erase.before',
  'erase.commit.before',
  'erase.commit.sent',
  'erase.after',
  'finishMonth.before',
  'finishMonth.after',
]

let ledger: TestLedger
let archive: TestArchive
let points: string
beforeEach(async () => {
  ledger = await createTestLedger(4)
  archive = await createTestArchive(ledger)
  points = await mkdtemp(join(tmpdir(), 'farebox-points-'))
})
afterEach(async () => {
  await archive.close()
  await ledger.close()
  await rm(points, { recursive: true, force: true })
})

/** Runs the archive in a process that is killed at the point. */
async function runUntil(point: string): Promise<void> {
  createPointControl(points).arm(point, 'kill')
  const child = spawnGuarded({
    command: process.execPath,
    args: [FIXTURE, points, NEXT_MONTH],
    env: { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: COMPILE_CACHE, ...archive.environment },
    log: () => undefined,
  })
  expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
}

/** Returns every receipt as a process returns it that has read nothing before. */
async function readReceipts(): Promise<readonly string[]> {
  const rows = await ledger.sql<{ id: string }>('SELECT id FROM receipts ORDER BY id')
  const reader = archive.openReader()
  return await Promise.all(rows.map(async ({ id }) => JSON.stringify(await reader.findReceipt(id))))
}

/** Returns how many calls the recorded objects have, and how many receipts point to an object. */
async function archivedCalls() {
  const [row] = await ledger.sql<{ recorded: number; erased: number }>(
    `SELECT (SELECT coalesce(sum(calls), 0)::int FROM archive_objects) AS recorded,
       (SELECT count(*)::int FROM receipts WHERE archive_object IS NOT NULL) AS erased`,
  )
  return [row?.recorded, row?.erased]
}

describe('a run of the archive that is killed', () => {
  it.each(POINTS)('at %s loses nothing, and the next run completes it', async (point) => {
    const jobs = await oldCalls(ledger, 4)
    // Two months, so that there is work after the point.
    await ledger.sql("UPDATE jobs SET finished_at = finished_at - interval '1 month' WHERE id = ANY($1)", [
      jobs.slice(2).map(({ id }) => id),
    ])
    const receipts = await readReceipts()
    await runUntil(point)
    const [recorded, erased] = await archivedCalls()
    expect([erased, await readReceipts()]).toEqual([recorded, receipts])
    expect([(await archive.run('--before', NEXT_MONTH)).exitCode, await readReceipts()]).toEqual([0, receipts])
    expect(await archivedCalls()).toEqual([4, 4])
    expect((await archive.run('--verify')).output).toBe('2 objects are as they were archived.\n')
    // What was written before the kill was written again with the same bytes, so nothing is left over.
    expect(await archive.files()).toHaveLength(2)
  })
})
