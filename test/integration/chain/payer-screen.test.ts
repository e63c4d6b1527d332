import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createScreeningOracle } from '#shared/adapters/chain/reading/screening-oracle.ts'
import { composePayerScreen } from '../../../api/composition/payer-screen.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { requirePermitted } from '../../../api/paid-request/payment/payer-screen.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

const [ONE, OTHER] = [`0x${'1a'.repeat(20)}`, `0x${'2b'.repeat(20)}`] as const
const ORACLE = `0x${'3c'.repeat(20)}` as const
/** Runtime code that answers every call with this word. */
const answering = (word: 0 | 1) => `0x600${word}60005260206000f3`

let devnet: TestDevnet
let proxy: RpcProxy
let folder: string
const resources: AsyncDisposableStack[] = []
const warned: string[] = []
const logger = { info: () => undefined, warn: (message: string) => void warned.push(message), error: () => undefined }

beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  folder = await mkdtemp(join(tmpdir(), 'farebox-screen-'))
})
afterEach(async () => {
  vi.useRealTimers()
  proxy.setFault(null)
  await Promise.all(resources.splice(0).map((stack) => stack.disposeAsync()))
})
afterAll(async () => {
  await rm(folder, { recursive: true })
  await proxy.stop()
  await devnet.stop()
})

function compose(file?: string, oracle: ((payer: string) => Promise<boolean>) | null = null, blocked: string[] = []) {
  const stack = new AsyncDisposableStack()
  resources.push(stack)
  const config = { PAYER_SCREENING_FILE: file } as ApiConfig
  return composePayerScreen(config, stack, { isBlocked: (payer) => blocked.includes(payer), oracle, logger })
}

describe('who may pay', () => {
  it('is everybody without blocks and lists', async () => {
    expect(await (await compose()).isRefused(ONE)).toBe(false)
  })

  it('is nobody whom operators block, before any list is asked', async () => {
    const screen = await compose(undefined, () => Promise.reject(new Error('asked')), [ONE])
    await expect(requirePermitted(screen, ONE)).rejects.toMatchObject({ code: 'payer_blocked' })
  })

  it('is nobody on the list of the file, which is read again when it has changed', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const file = join(folder, 'list.txt')
    await writeFile(file, `# a list\n\n${ONE.toUpperCase().replace('0X', '0x')} # as published\n`)
    const screen = await compose(file)
    expect([await screen.isRefused(ONE), await screen.isRefused(OTHER)]).toEqual([true, false])
    await writeFile(file, OTHER)
    await utimes(file, new Date(), new Date(Date.now() + 5000))
    vi.advanceTimersByTime(30_000)
    await until(async () => await screen.isRefused(OTHER))
    expect(await screen.isRefused(ONE)).toBe(false)
    await rm(file)
    vi.advanceTimersByTime(30_000)
    await until(async () => Promise.resolve(warned.length > 0))
    expect(await screen.isRefused(OTHER)).toBe(true)
  })

  it('is not known at the start without the file, or with a line that is no address', async () => {
    await expect(compose(join(folder, 'missing'))).rejects.toThrow('PAYER_SCREENING_FILE')
    const file = join(folder, 'wrong.txt')
    await writeFile(file, `${ONE}\n0x12\n`)
    await expect(compose(file)).rejects.toThrow('line 2 is not an address')
  })

  it('is nobody whom the list on chain names, which is asked once in ten minutes', async () => {
    const oracle = createScreeningOracle(createChainClient(proxy.url, PATIENCE_MS), ORACLE)
    const screen = await compose(undefined, oracle)
    await devnet.client.request({ method: 'anvil_setCode', params: [ORACLE, answering(1)] } as never)
    expect(await screen.isRefused(ONE)).toBe(true)
    await devnet.client.request({ method: 'anvil_setCode', params: [ORACLE, answering(0)] } as never)
    const callsBefore = proxy.calls.length
    expect([await screen.isRefused(ONE), await screen.isRefused(OTHER)]).toEqual([true, false])
    expect(proxy.calls.length - callsBefore).toBe(1)
  })

  it('cannot be decided while the list on chain cannot be read: no money moves', async () => {
    const screen = await compose(undefined, createScreeningOracle(createChainClient(proxy.url, 500), ORACLE))
    proxy.setFault({ kind: 'reset' })
    await expect(requirePermitted(screen, `0x${'4d'.repeat(20)}`)).rejects.toMatchObject({
      code: 'payment_network_unavailable',
      message: expect.stringContaining('whether this address may pay') as string,
    })
  })
})
