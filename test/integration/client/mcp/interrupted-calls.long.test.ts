import type { CallToolResult } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../client/farebox.ts'
import {
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../../support/mcp/local-server.ts'
import { startRawServer } from '../../../support/mcp/raw-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { until } from '../../../support/until.ts'

let sandbox: SharedSandbox
let wallet: ServerWallet
let server: LocalServer | undefined
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  wallet = await createServerWallet(sandbox)
})
afterEach(async () => {
  await sandbox.setFaults([])
  await server?.close()
})
afterAll(async () => {
  await wallet.remove()
  await sandbox.stop()
})

/** Holds the vendor's answer until the service works for the call, which is when `interrupt` is called. */
async function interrupted(given: Record<string, unknown>, interrupt: () => void, signal?: AbortSignal): Promise<void> {
  const before = (await sandbox.upstreamCalls()).length
  await sandbox.setFaults([{ fault: 'none', delayMs: 2500 }])
  const call = server?.call('chat', given, signal === undefined ? {} : { signal })
  const outcome = call?.then(
    () => 'answered',
    () => 'interrupted',
  )
  await until(async () => (await sandbox.upstreamCalls()).length > before)
  interrupt()
  expect(await outcome).toBe('interrupted')
  await sandbox.setFaults([])
}

/** Makes the call again, and returns the charge that its receipt states. */
async function repeat(given: Record<string, unknown>): Promise<bigint> {
  const answer = await server?.call('chat', given)
  expect(answer).toMatchObject({ structuredContent: { payment: { charge_usdc: expect.any(String) } } })
  const { payment } = (answer as CallToolResult).structuredContent as { payment: { charge_usdc: string } }
  return parseUsdc(payment.charge_usdc)
}

describe.each(ERAS)('a call of a client of %s', (era) => {
  it('that is canceled after it was paid for is charged once when it is made again', async () => {
    server = await startLocalServer(wallet, { era })
    const before = await wallet.paid()
    const given = { prompt: `Cancel me, ${era}.`, max_tokens: 20 }
    const controller = new AbortController()
    await interrupted(given, () => controller.abort(), controller.signal)
    expect(await repeat(given)).toBe((await wallet.paid()) - before)
  })
})

describe('a call', () => {
  it('whose server is killed is charged once when another one makes it again', async () => {
    server = await startLocalServer(wallet, { era: '2026-07-28' })
    const before = await wallet.paid()
    const given = { prompt: 'Kill me.', max_tokens: 20, request_id: 'killed' }
    const { pid } = server
    await interrupted(given, () => process.kill(pid, 'SIGKILL'))
    server = await startLocalServer(wallet, { era: '2026-07-28' })
    expect(await repeat(given)).toBe((await wallet.paid()) - before)
  })
})

describe('a server with a call under way', () => {
  it.each(['its input ends', 'SIGINT', 'SIGTERM'] as const)(
    'ends without an error at once when %s, and the call is charged once when it is made again',
    async (reason) => {
      const before = await wallet.paid()
      const given = { prompt: `End at once: ${reason}.`, max_tokens: 20, request_id: `ended-${reason.length}` }
      const upstream = (await sandbox.upstreamCalls()).length
      await sandbox.setFaults([{ fault: 'none', delayMs: 3000 }])
      const { child, request, ended, errors } = await startRawServer(wallet)
      request(1, 'tools/call', { name: 'chat', arguments: given })
      await until(async () => (await sandbox.upstreamCalls()).length > upstream)
      if (reason === 'its input ends') child.stdin.end()
      else child.kill(reason)
      expect(await ended).toEqual({ code: 0, signal: null })
      expect(errors()).toBe('')
      await sandbox.setFaults([])
      server = await startLocalServer(wallet)
      expect(await repeat(given)).toBe((await wallet.paid()) - before)
    },
  )
})
