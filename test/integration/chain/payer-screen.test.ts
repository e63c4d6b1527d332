import { mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createScreeningOracle, requireScreeningOracle } from '#shared/chain/reading/screening-oracle.ts'
import { composePayerScreen } from '../../../api/composition/payer-screen.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { requirePermitted, requireUnlisted } from '../../../api/paid-request/pay/payer-screen.ts'
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

function compose(file?: string, blocked: string[] = []) {
  const stack = new AsyncDisposableStack()
  resources.push(stack)
  const config = { PAYER_SCREENING_FILE: file } as ApiConfig
  return composePayerScreen(config, stack, { isBlocked: (payer) => blocked.includes(payer), oracle: null, logger })
}

const setOracleCode = (code: string) =>
  devnet.client.request({ method: 'anvil_setCode', params: [ORACLE, code] } as never)

describe('who may pay', () => {
  it('is everybody without blocks and lists', async () => {
    const screen = await compose()
    expect(screen.isRefused(ONE)).toBe(false)
    await expect(requireUnlisted(screen, ONE)).resolves.toBeUndefined()
  })

  it('is nobody whom operators block', async () => {
    const screen = await compose(undefined, [ONE])
    expect(() => requirePermitted(screen, ONE)).toThrow(expect.objectContaining({ code: 'payer_blocked' }))
  })

  it('is nobody on the list of the file, which is read again when it has changed', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const file = join(folder, 'list.txt')
    await writeFile(file, `# a list\n\n${ONE.toUpperCase().replace('0X', '0x')} # as published\n`)
    const screen = await compose(file)
    expect([screen.isRefused(ONE), screen.isRefused(OTHER)]).toEqual([true, false])
    // With the old file's time, as a copy that preserves it has.
    const { atime, mtime } = await stat(file)
    await writeFile(file, OTHER)
    await utimes(file, atime, mtime)
    vi.advanceTimersByTime(30_000)
    await until(async () => Promise.resolve(screen.isRefused(OTHER)))
    expect(screen.isRefused(ONE)).toBe(false)
    await rm(file)
    vi.advanceTimersByTime(30_000)
    await until(async () => Promise.resolve(warned.length > 0))
    expect(screen.isRefused(OTHER)).toBe(true)
  })

  it('is nobody on the last list when the file names no address any more, as after a failed download', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const file = join(folder, 'emptied.txt')
    await writeFile(file, ONE)
    const screen = await compose(file)
    const before = warned.length
    await writeFile(file, '# nothing\n')
    vi.advanceTimersByTime(30_000)
    await until(async () => Promise.resolve(warned.length > before))
    expect(screen.isRefused(ONE)).toBe(true)
  })

  it('is everybody with a file that names no address from the start, which is said', async () => {
    const file = join(folder, 'empty.txt')
    await writeFile(file, '# to come')
    const before = warned.length
    expect((await compose(file)).isRefused(ONE)).toBe(false)
    expect(warned.slice(before)).toEqual(['PAYER_SCREENING_FILE names no address: it refuses nobody'])
  })

  it('is not known at the start without the file, or with a line that is no address', async () => {
    await expect(compose(join(folder, 'missing'))).rejects.toThrow('PAYER_SCREENING_FILE')
    const file = join(folder, 'wrong.txt')
    await writeFile(file, `${ONE}\n0x12\n`)
    await expect(compose(file)).rejects.toThrow('line 2 is not an address')
  })
})

describe('the list on chain', () => {
  it('is asked once in ten minutes about an address, also by calls that arrive together', async () => {
    const isListed = createScreeningOracle(createChainClient(proxy.url, PATIENCE_MS), ORACLE)
    await setOracleCode(answering(1))
    const callsBefore = proxy.calls.length
    expect(await Promise.all([isListed(ONE), isListed(ONE), isListed(ONE)])).toEqual([true, true, true])
    await setOracleCode(answering(0))
    expect([await isListed(ONE), await isListed(OTHER)]).toEqual([true, false])
    expect(proxy.calls.length - callsBefore).toBe(2)
  })

  it('is asked again after it could not be read, which says so', async () => {
    const isListedOnChain = createScreeningOracle(createChainClient(proxy.url, 500), ORACLE)
    await setOracleCode(answering(0))
    proxy.setFault({ kind: 'reset' })
    await expect(requireUnlisted({ isRefused: () => false, isListedOnChain }, ONE)).rejects.toMatchObject({
      code: 'payment_network_unavailable',
      message: expect.stringContaining('whether this address may pay') as string,
    })
    proxy.setFault(null)
    expect(await isListedOnChain(ONE)).toBe(false)
  })

  it.each([
    ['without a contract', '0x', /^PAYER_SCREENING_ORACLE: there is no contract at 0x/],
    ['whose contract answers nothing', '0x00', /^PAYER_SCREENING_ORACLE: the contract at .* does not answer/],
    ['whose contract reverts', '0x60006000fd', /^PAYER_SCREENING_ORACLE: the contract at .* does not answer/],
  ])('is refused at the start at an address %s', async (_, code, sentence) => {
    await setOracleCode(code)
    const client = createChainClient(proxy.url, PATIENCE_MS)
    await expect(requireScreeningOracle(client, ORACLE)).rejects.toThrow(sentence)
  })

  it('prevents no start as a list, whatever it says of an address, or while no node answers', async () => {
    const client = createChainClient(proxy.url, PATIENCE_MS)
    for (const word of [0, 1] as const) {
      await setOracleCode(answering(word))
      await expect(requireScreeningOracle(client, ORACLE)).resolves.toBeUndefined()
    }
    await expect(
      requireScreeningOracle(createChainClient('http://127.0.0.1:1', PATIENCE_MS), ORACLE),
    ).resolves.toBeUndefined()
  })
})
