import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { until } from '../../../support/until.ts'
import { useChargeBench } from './support/charge-bench.ts'
import type { McpProcess } from './support/mcp-process.ts'
import { bytesOf, PAID_TOOLS } from './support/paid-tools.ts'

const DIE_AT = fileURLToPath(new URL('support/die-at.ts', import.meta.url))

const used = useChargeBench()

/** Kills a server during a call, makes the call again in two others, and expects one charge and equal results. */
async function killAndRepeat(name: string, call: object, kill: () => Promise<McpProcess>) {
  const killed = await kill()
  expect(await killed.ended).toMatchObject({ signal: 'SIGKILL' })
  await used.sandbox.setFaults([])
  used.bench.tap.alter(undefined)
  const repeated = await (await used.start()).call(name, call)
  expect(repeated).not.toMatchObject({ isError: true })
  const again = await (await used.start()).call(name, call)
  expect(bytesOf(again)).toBe(bytesOf(repeated))
  expect(await used.charges()).toEqual({ onChain: 1, jobs: 1 })
}

describe('a server that is killed', () => {
  it.each(['intended', 'quoted', 'signed', 'answered', 'verified', 'answer'])(
    'at the moment “%s” of a call charges it once when it is repeated',
    async (moment) => {
      const call = { prompt: 'Good evening.', max_tokens: 20, request_id: 'killed' }
      await killAndRepeat('chat', call, async () => {
        const server = await used.start({ preload: DIE_AT, environment: { ...used.bench.environment, DIE_AT: moment } })
        await server.call('chat', call).catch(() => undefined)
        return server
      })
    },
  )

  it.each(PAID_TOOLS)(
    'while the service works for $name charges it once when it is repeated',
    async ({ name, args }) => {
      const call = { ...args('worked'), request_id: 'killed' }
      const before = (await used.sandbox.upstreamCalls()).length
      await used.sandbox.setFaults([{ fault: 'none', delayMs: 2000 }])
      await killAndRepeat(name, call, async () => {
        const server = await used.start()
        void server.call(name, call).catch(() => undefined)
        await until(async () => (await used.sandbox.upstreamCalls()).length > before)
        server.kill()
        return server
      })
    },
  )

  it.each(PAID_TOOLS)('between the charge and the answer of $name charges it once', async ({ name, args }) => {
    const call = { ...args('charged'), request_id: 'killed' }
    const held = Promise.withResolvers<void>()
    used.bench.tap.alter(async (answer) => {
      if (!answer.isPaid || answer.status !== 200) return answer
      held.resolve()
      return await new Promise(() => undefined)
    })
    await killAndRepeat(name, call, async () => {
      const server = await used.start()
      void server.call(name, call).catch(() => undefined)
      await held.promise
      expect((await used.charges()).onChain).toBe(1)
      server.kill()
      return server
    })
  })
})
