import { createServer } from 'node:net'
import { expect, it } from 'vitest'
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
