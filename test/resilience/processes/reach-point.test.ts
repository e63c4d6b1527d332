import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/guarded-process.ts'
import { createPointControl } from './reach-point.ts'

const FIXTURE = fileURLToPath(new URL('reach-point.fixture.ts', import.meta.url))

let directory: string
const lines: string[] = []
const started: GuardedProcess[] = []
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-points-'))
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((one) => one.stop({ signal: 'SIGKILL' })))
  lines.length = 0
  await rm(directory, { recursive: true, force: true })
})

/** Processes that pass the point `loop` again and again. */
async function startLooping(count: number) {
  const points = createPointControl(directory)
  const processes = Array.from({ length: count }, () =>
    spawnGuarded({ command: process.execPath, args: [FIXTURE, directory], log: (line) => lines.push(line) }),
  )
  started.push(...processes)
  await vi.waitUntil(() => lines.filter((line) => line === 'running').length === count, { timeout: 30_000 })
  return { points, processes }
}

async function untilHit(points: ReturnType<typeof createPointControl>): Promise<number> {
  return await vi.waitUntil(() => points.hitBy('loop') ?? false, { timeout: 10_000 })
}

async function stateOf(pid: number): Promise<string | undefined> {
  return /\) (\w)/.exec(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''))?.[1]
}

test('an armed kill ends exactly one of the processes that pass the point, by SIGKILL', async () => {
  const { points, processes } = await startLooping(3)
  points.arm('loop', 'kill')
  const pid = await untilHit(points)
  const killed = processes.find((one) => one.pid === pid)
  expect(await killed?.exited).toEqual({ code: null, signal: 'SIGKILL' })
  for (const survivor of processes.filter((one) => one !== killed)) process.kill(survivor.pid, 0)

  points.arm('loop', 'kill')
  expect(await vi.waitUntil(() => points.hitBy('loop') ?? false, { timeout: 10_000 })).not.toBe(pid)
})

test('an armed failure is thrown once', async () => {
  const { points, processes } = await startLooping(1)
  points.arm('loop', 'throw')
  expect(await untilHit(points)).toBe(processes[0]?.pid)
  await vi.waitUntil(() => lines.includes('a fault was armed at loop'), { timeout: 10_000 })
  expect(lines.filter((line) => line.startsWith('a fault'))).toHaveLength(1)
})

test.runIf(process.platform === 'linux')('an armed stop holds the process until it is continued', async () => {
  const { points } = await startLooping(1)
  points.arm('loop', 'stop')
  const pid = await untilHit(points)
  await vi.waitUntil(async () => (await stateOf(pid)) === 'T', { timeout: 10_000 })
  process.kill(pid, 'SIGCONT')
  await vi.waitUntil(async () => (await stateOf(pid)) !== 'T', { timeout: 10_000 })
  points.arm('loop', 'throw')
  expect(await untilHit(points)).toBe(pid)
})

test('a point that was disarmed in time is never reached', async () => {
  const points = createPointControl(directory)
  points.arm('loop', 'kill')
  expect(points.disarm('loop')).toBe(true)
  await startLooping(1)
  expect(points.hitBy('loop')).toBeNull()
  expect(points.disarm('loop')).toBe(false)
})
