import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { until } from '../../support/until.ts'
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

/** Starts processes that pass the point `loop` repeatedly. */
async function startLooping(count: number) {
  const points = createPointControl(directory)
  const processes = Array.from({ length: count }, () =>
    spawnGuarded({ command: process.execPath, args: [FIXTURE, directory], log: (line) => lines.push(line) }),
  )
  started.push(...processes)
  await until(() => lines.filter((line) => line === 'running').length === count)
  return { points, processes }
}

async function untilHit(points: ReturnType<typeof createPointControl>): Promise<number> {
  return await until(() => points.hitBy('loop') ?? 0)
}

async function stateOf(pid: number): Promise<string | undefined> {
  return /\) (\w)/.exec(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''))?.[1]
}

test('an armed kill ends exactly one of the processes that pass the point, with SIGKILL', async () => {
  const { points, processes } = await startLooping(3)
  points.arm('loop', 'kill')
  const pid = await untilHit(points)
  const killed = processes.find((one) => one.pid === pid)
  expect(await killed?.exited).toEqual({ code: null, signal: 'SIGKILL' })
  for (const survivor of processes.filter((one) => one !== killed)) process.kill(survivor.pid, 0)

  points.arm('loop', 'kill')
  expect(await untilHit(points)).not.toBe(pid)
})

test('an armed failure is thrown once', async () => {
  const { points, processes } = await startLooping(1)
  points.arm('loop', 'throw')
  expect(await untilHit(points)).toBe(processes[0]?.pid)
  await until(() => lines.includes('a fault was armed at loop'))
  expect(lines.filter((line) => line.startsWith('a fault'))).toHaveLength(1)
})

test.runIf(process.platform === 'linux')('an armed stop pauses the process until it is continued', async () => {
  const { points } = await startLooping(1)
  points.arm('loop', 'stop')
  const pid = await untilHit(points)
  await until(async () => (await stateOf(pid)) === 'T')
  process.kill(pid, 'SIGCONT')
  await until(async () => (await stateOf(pid)) !== 'T')
  points.arm('loop', 'throw')
  expect(await untilHit(points)).toBe(pid)
})

test('an armed pass reports the process and changes nothing', async () => {
  const { points, processes } = await startLooping(1)
  points.arm('loop', 'pass')
  expect(await untilHit(points)).toBe(processes[0]?.pid)
  points.arm('loop', 'pass')
  expect(await untilHit(points)).toBe(processes[0]?.pid)
  expect(lines).toEqual(['running'])
})

test('a point that was disarmed in time is not hit', async () => {
  const points = createPointControl(directory)
  points.arm('loop', 'kill')
  expect(points.disarm('loop')).toBe(true)
  await startLooping(1)
  expect(points.hitBy('loop')).toBeNull()
  expect(points.disarm('loop')).toBe(false)
})
