import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPayingClient } from '../../../../infra/sandbox/paying-client.ts'
import { createPayer } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'
import { callHosted, payHosted, signHosted } from './support/hosted-calls.ts'
import { outflowsOf, spent, violations } from './support/money-checks.ts'

const CALLS = 200
const MODEL = 'textmodel-2.5-flash'
/** What one call is charged, in atomic USDC: the minimum. */
const PRICE = 2000n

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

/** Makes 200 different calls at once, in `servers` processes; returns the codes of those that were refused. */
async function callAtOnce(bench: AttackBench, servers: number): Promise<readonly string[]> {
  const started = Array.from({ length: servers }, () => bench.start())
  await Promise.all(started.map((server) => server.initialize()))
  const answers = await Promise.all(
    Array.from({ length: CALLS }, async (_, index) => {
      const server = started[index % servers]
      return await server?.call('chat', { prompt: `Call ${index}.`, model: MODEL, max_tokens: 10 })
    }),
  )
  return answers.flatMap((answer) => answer?.structuredContent?.error?.code ?? [])
}

describe('200 calls at once', () => {
  it.each([
    ['of the session of one server', 1, ['--session', '0.05', '--day', '5'], 25n],
    ['of the day over four servers', 4, ['--session', '5', '--day', '0.05'], 25n],
    ['of each session of four servers', 4, ['--session', '0.02', '--day', '5'], 40n],
    ['of the day of one tool over four servers', 4, ['--tool', 'chat', '--day', '0.05'], 25n],
  ] as const)('never pay more than the limit %s', async (_, servers, limits, calls) => {
    const bench = await makeAttackBench(sandbox)
    try {
      await bench.setLimits(...limits)
      const refused = await callAtOnce(bench, servers)
      expect(new Set(refused)).toEqual(new Set(['budget_exceeded']))
      const moved = await bench.moved()
      expect(violations(moved, { call: PRICE, total: calls * PRICE }, sandbox.info)).toEqual([])
      expect(spent(moved)).toBe(BigInt(CALLS - refused.length) * PRICE)
      expect(spent(moved)).toBe(calls * PRICE)
      // No signature beyond the limit is out there either.
      expect(BigInt(moved.payments.length)).toBe(calls)
    } finally {
      await bench.remove()
    }
  })

  it('are all paid where the limits have room for them: the counts above can fail', async () => {
    const bench = await makeAttackBench(sandbox)
    try {
      await bench.setLimits('--session', '5', '--day', '5')
      expect(await callAtOnce(bench, 2)).toEqual([])
      expect(spent(await bench.moved())).toBe(BigInt(CALLS) * PRICE)
    } finally {
      await bench.remove()
    }
  })
})

describe('200 calls of the hosted server at once', () => {
  const chat = { model: MODEL, messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 20 }

  it('with one payment are charged once, and all results are equal', async () => {
    const { rpcUrl, network, baseUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, { approved: true })
    const signer = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
    const call = await signHosted(baseUrl, signer, 'chat', chat)
    const answers = await Promise.all(
      Array.from({ length: CALLS }, () => payHosted(baseUrl, call).catch((error: unknown) => error as Error)),
    )
    const results = answers.flatMap((answer) =>
      answer instanceof Error || answer.isError === true ? [] : JSON.stringify(answer.structuredContent),
    )
    expect(results.length).toBeGreaterThan(0)
    expect(new Set(results).size).toBe(1)
    expect(spent({ outflows: await outflowsOf(sandbox, payer.address) })).toBe(PRICE)
    expect(await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).toHaveLength(1)
  })

  it('without a payment begin nothing', async () => {
    const jobs = await sandbox.added('jobs')
    await Promise.allSettled(Array.from({ length: CALLS }, () => callHosted(sandbox.info.baseUrl, 'chat', chat)))
    expect(await sandbox.added('jobs')).toBe(jobs)
  })
})
