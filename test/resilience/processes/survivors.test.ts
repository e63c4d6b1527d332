import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { survivorsOf } from '../../support/processes/is-running.ts'

const DIRECTORY = '/tmp/farebox-campaign-of-this-test'
/** The parent of the kernel’s threads; in a container, an ordinary process or none. */
const KERNEL = 2

it('a process that outlived its stack is found by its environment, and no other, nor a thread of the kernel', async () => {
  const child = spawn('sleep', ['60'], {
    env: { PATH: process.env['PATH'], FAULT_POINTS_DIRECTORY: `${DIRECTORY}/points` },
  })
  try {
    await once(child, 'spawn')
    const pid = child.pid ?? 0
    // Until it runs its program, it has this process's environment.
    await expect.poll(() => survivorsOf([pid, process.pid, KERNEL], DIRECTORY)).toEqual([pid])
  } finally {
    child.kill()
    await once(child, 'exit')
  }
  expect(await survivorsOf([child.pid ?? 0], DIRECTORY)).toEqual([])
})
