import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { withLock } from '../../../../client/journal/lock.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-lock-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const lockFile = () => join(directory, 'journal.lock')

describe('the lock of a journal', () => {
  it('a lock that a killed process has left is taken over', async () => {
    await mkdir(lockFile())
    const longAgo = new Date(Date.now() - 60_000)
    await utimes(lockFile(), longAgo, longAgo)
    expect(await withLock(directory, () => 'done')).toBe('done')
  })

  it('what was done under a lock that another process took over is an error', async () => {
    const lost = withLock(directory, async () => {
      await rm(lockFile(), { recursive: true })
      // Keeps the lock's number from being used again.
      await mkdir(join(directory, 'other'))
      await mkdir(lockFile())
    })
    await expect(lost).rejects.toMatchObject({ code: 'journal_locked', money: 'none' })
    expect(await readdir(directory)).toContain('journal.lock')
  })

  it('work that fails releases the lock', async () => {
    const failing = withLock(directory, () => {
      throw new Error('broken')
    })
    await expect(failing).rejects.toThrow('broken')
    expect(await withLock(directory, () => 'done')).toBe('done')
  })
})
