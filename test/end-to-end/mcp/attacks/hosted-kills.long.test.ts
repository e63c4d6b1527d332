import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPayingClient } from '../../../../infra/sandbox/paying-client.ts'
import { createPayer, type Payer } from '../../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../../support/processes/test-sandbox.ts'
import { until } from '../../../support/until.ts'
import { codeOf, type PaidHostedCall, payHosted, signHosted } from './support/hosted-calls.ts'
import { bytesOf } from './support/paid-tools.ts'

let sandbox: TestSandbox
beforeAll(async () => {
  // Settlements wait for a block, so that their state can be met.
  sandbox = await startTestSandbox({ blockTimeSeconds: 2 })
})
afterAll(() => sandbox.stop())

async function kill(part: 'api' | 'worker') {
  process.kill(sandbox.pidOf(part), 'SIGKILL')
  await sandbox.restart(part)
}

/** Repeats the call, unchanged, for as long as the answers ask for that. */
async function payPatiently(call: PaidHostedCall) {
  return await until(async () => {
    const answer = await payHosted(sandbox.info.baseUrl, call).catch(() => null)
    if (answer === null) return undefined
    const { retry } = (answer.structuredContent?.error ?? {}) as { readonly retry?: string }
    return retry === 'same_request' ? undefined : answer
  })
}

const stateOf = async ({ address }: Payer) =>
  (await sandbox.sql<{ state: string }>('SELECT state FROM jobs WHERE payer = $1', [address]))[0]?.state

describe('a hosted call', () => {
  it.each([
    ['api', 'generating'],
    ['api', 'settling'],
    ['worker', 'settling'],
  ] as const)('whose %s is killed while it is %s is charged once when it is repeated', async (part, state) => {
    const { rpcUrl, network, baseUrl, payTo } = sandbox.info
    const payer = await createPayer(rpcUrl, { approved: true })
    const signer = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
    const messages = [{ role: 'user', content: 'Good evening.' }]
    const call = await signHosted(baseUrl, signer, 'chat', { model: 'textmodel-2.5-flash', messages, max_tokens: 20 })
    await sandbox.setFaults(state === 'generating' ? [{ fault: 'none', delayMs: 2000 }] : [])
    const before = (await sandbox.chain.transfersTo(payTo)).length
    const lost = payHosted(baseUrl, call).catch(() => null)
    await until(async () => (await stateOf(payer)) === state)
    await kill(part)
    await lost
    const answer = await payPatiently(call)
    expect({ isError: answer.isError ?? false, code: codeOf(answer) }).toEqual({ isError: false, code: 'undefined' })
    expect(bytesOf(await payPatiently(call))).toBe(bytesOf(answer))
    expect(await sandbox.chain.transfersTo(payTo)).toHaveLength(before + 1)
    expect(await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).toHaveLength(1)
  })
})
