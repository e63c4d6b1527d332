import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Undelivered } from '../../../../../client/command/commands/calls/undelivered.ts'

const HOUR_MS = 3_600_000
const [ONE, OTHER] = ['a'.repeat(64), 'b'.repeat(64)]

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-undelivered-'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

const marks = () => readdir(join(home, 'undelivered'))

/** Replaces a part of the name of the one mark. */
async function rewriteMark(change: (name: string) => string): Promise<void> {
  const [name = ''] = await marks()
  await rename(join(home, 'undelivered', name), join(home, 'undelivered', change(name)))
}

const withPid = (pid: number) => (name: string) => name.replace(/-\d+(-[0-9a-f]{8})$/, `-${pid}$1`)

describe('calls whose result was not handed over', () => {
  it('are taken up by the next equal command, and ended calls are not', () => {
    const first = new Undelivered(home).begin(ONE)
    const second = new Undelivered(home).begin(ONE)
    expect(second.key).toBe(first.key)
    second.end()
    expect(new Undelivered(home).begin(ONE).key).not.toBe(first.key)
  })

  it('are not taken up by another request, nor twice by one command', () => {
    const left = new Undelivered(home).begin(ONE)
    expect(new Undelivered(home).begin(OTHER).key).not.toBe(left.key)
    const command = new Undelivered(home)
    const keys = [command.begin(ONE).key, command.begin(ONE).key, command.begin(ONE).key]
    expect(keys[0]).toBe(left.key)
    expect(new Set(keys).size).toBe(3)
  })

  it('are left to a process that still runs, and taken from one that ended', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    await rewriteMark(withPid(process.ppid))
    expect(new Undelivered(home).begin(ONE).key).not.toBe(key)
    await rm(join(home, 'undelivered'), { recursive: true })
    const left = new Undelivered(home).begin(ONE)
    const { pid } = spawnSync(process.execPath, ['--version'])
    await rewriteMark(withPid(pid))
    expect(new Undelivered(home).begin(ONE).key).toBe(left.key)
  })

  it('of another machine are taken up only when no call takes as long', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    await rewriteMark((name) => name.replace(/-[0-9a-f]{8}(-\d+-[0-9a-f]{8})$/, '-00000000$1'))
    const within = new Undelivered(home, () => Date.now() + HOUR_MS / 2).begin(ONE)
    expect(within.key).not.toBe(key)
    within.end()
    expect(new Undelivered(home, () => Date.now() + 2 * HOUR_MS).begin(ONE).key).toBe(key)
  })

  it('are not taken up when their result may be gone, and are forgotten after a week', async () => {
    const { key } = new Undelivered(home).begin(ONE)
    const later = (hours: number) => new Undelivered(home, () => Date.now() + hours * HOUR_MS).begin(ONE)
    const second = later(25)
    expect(second.key).not.toBe(key)
    second.end()
    expect(await marks()).toHaveLength(1)
    later(8 * 24).end()
    expect(await marks()).toEqual([])
  })

  it('are for their owner only, and carry no request', async () => {
    new Undelivered(home).begin(ONE)
    const [name = ''] = await marks()
    const [folder, mark] = await Promise.all([stat(join(home, 'undelivered')), stat(join(home, 'undelivered', name))])
    expect([folder.mode & 0o777, mark.mode & 0o777, mark.size]).toEqual([0o700, 0o600, 0])
  })

  it('are a reason not to pay when they cannot be written down', async () => {
    await writeFile(join(home, 'undelivered'), 'in the way')
    expect(() => new Undelivered(home).begin(ONE)).toThrow(
      expect.objectContaining({ code: 'journal_unwritable', money: 'none' }) as Error,
    )
  })
})
