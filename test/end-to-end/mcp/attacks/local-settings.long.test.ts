import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'

let sandbox: SharedSandbox
let bench: AttackBench
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  bench = await makeAttackBench(sandbox)
})
afterAll(async () => {
  await bench.remove()
  await sandbox.stop()
})

const withSettings = async (change: Record<string, string | undefined>) => {
  const environment = Object.fromEntries(
    Object.entries({ ...bench.environment, ...change }).filter(([, value]) => value !== undefined),
  ) as Record<string, string>
  const started = bench.start({ environment })
  await started.initialize()
  return await started.call('chat', { prompt: 'Hello.' })
}

describe('a server without a wallet, a service or a usable one', () => {
  it.concurrent.each([
    ['no wallet', { FAREBOX_KEY_FILE: undefined }],
    ['no service', { FAREBOX_URL: undefined }],
    ['a service that is not there', { FAREBOX_URL: 'http://127.0.0.1:9' }],
    ['a service that is no URL', { FAREBOX_URL: 'farebox' }],
    ['a key that is none', { FAREBOX_KEY_FILE: undefined, FAREBOX_PRIVATE_KEY: '0x12' }],
  ])('lists its tools and refuses calls with what to do: %s', async (_, change) => {
    const answer = await withSettings(change)
    const { error } = answer.structuredContent ?? {}
    expect(answer).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
    expect(error?.advice).toMatch(/\w/)
  })
})
