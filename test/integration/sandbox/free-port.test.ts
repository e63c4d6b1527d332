import { createServer } from 'node:net'
import { expect, it, vi } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'

it('gives ports in turn that no outgoing connection gets, and none that is taken', async () => {
  const first = await findFreePort()
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(first + 1, '127.0.0.1', resolve))
  try {
    const ports = await Promise.all(Array.from({ length: 20 }, findFreePort))
    expect(new Set([first, ...ports]).size).toBe(21)
    expect(ports).not.toContain(first + 1)
    expect(Math.max(first, ...ports)).toBeLessThan(32_768)
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
})

it('gives no port that `fetch` and browsers refuse', async () => {
  await expect(fetch('http://127.0.0.1:10080')).rejects.toHaveProperty('cause.message', 'bad port')
  // The parts of the range go by process id.
  const pid = vi.spyOn(process, 'pid', 'get').mockReturnValue(100)
  const ports = await Promise.all(Array.from({ length: 220 }, findFreePort)).finally(() => pid.mockRestore())
  expect(Math.min(...ports)).toBeGreaterThan(10_080)
})
