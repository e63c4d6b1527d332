import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Devnet } from '../../../infra/sandbox/chain/devnet.ts'
import { fundSandboxAccounts } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader, startTestDevnet } from '../../support/chain/devnet.ts'
import { settleWithPermit, signPayment } from './upto-payment.ts'

let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-devnet-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

async function blockNumber({ rpcUrl }: Devnet): Promise<number> {
  return Number(await callRpc<string>(rpcUrl, 'eth_blockNumber', []))
}

describe('a devnet with a state file', () => {
  it('a devnet keeps balances, receipts and logs across a restart, and is not funded twice', async () => {
    const stateFile = join(directory, 'kept.json')
    const first = await startTestDevnet({ stateFile })
    const { hash } = await settleWithPermit(first, await signPayment(first, 900_000n), 77n).then((receipt) => ({
      hash: receipt.transactionHash,
    }))
    await first.stop()
    expect(await first.exited).toEqual({ code: 0, signal: null })

    const second = await startTestDevnet({ stateFile })
    const reader = createChainReader(second.rpcUrl)
    await fundSandboxAccounts(second.rpcUrl, first.accounts)
    expect(second.resumed).toBe(true)
    expect(await reader.usdcBalance(first.accounts.payer.address)).toBe(1_000_000_000n - 77n)
    expect((await reader.client.getTransactionReceipt({ hash })).status).toBe('success')
    expect(await reader.transfersTo(first.accounts.recipient.address)).toMatchObject([{ valueAtomic: 77n }])
    const minedAfter = Date.now() / 1_000
    await callRpc(second.rpcUrl, 'evm_mine', [])
    const { timestamp } = await reader.client.getBlock()
    expect(Number(timestamp)).toBeGreaterThan(minedAfter - 30)
    expect(Number(timestamp)).toBeLessThan(Date.now() / 1_000 + 30)
    await second.stop()
  })

  it('a devnet keeps its chain after a SIGKILL of anvil', async () => {
    const stateFile = join(directory, 'killed.json')
    const first = await startTestDevnet({ stateFile })
    const block = await blockNumber(first)
    // anvil writes its first copy after two seconds.
    await expect.poll(() => readFile(stateFile).catch(() => undefined)).toBeDefined()
    process.kill(first.pid, 'SIGKILL')
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await startTestDevnet({ stateFile })
    expect(second.resumed).toBe(true)
    expect(await blockNumber(second)).toBeGreaterThanOrEqual(block)
    await second.stop()
  })

  it('a devnet never loads a half-written state, but the older complete one, or starts fresh', async () => {
    const stateFile = join(directory, 'torn.json')
    const first = await startTestDevnet({ stateFile })
    await first.stop()
    const complete = await readFile(`${stateFile}.exit`)
    await writeFile(stateFile, complete)
    await writeFile(`${stateFile}.exit`, complete.subarray(0, complete.length / 2))
    const lines: string[] = []
    const log = (line: string) => lines.push(line)
    const second = await startTestDevnet({ stateFile, log })
    expect(second.resumed).toBe(true)
    expect(lines.join('\n')).toContain('incomplete')
    await second.stop()

    await writeFile(stateFile, complete.subarray(0, 1_000))
    await writeFile(`${stateFile}.exit`, '')
    const third = await startTestDevnet({ stateFile, log })
    expect(third.resumed).toBe(false)
    expect(lines.at(-1)).toContain('starts fresh')
    expect(await blockNumber(third)).toBe(1)
    await third.stop()
  })

  it('a state file cannot be used by two devnets', async () => {
    const stateFile = join(directory, 'shared.json')
    const first = await startTestDevnet({ stateFile })
    await expect(startTestDevnet({ stateFile })).rejects.toThrow('is in use by process')
    await first.stop()
  })
})

describe('devnets', () => {
  it('devnets run concurrently, each with its own chain', async () => {
    const [left, right] = await Promise.all([startTestDevnet(), startTestDevnet()])
    await callRpc(left.rpcUrl, 'evm_mine', [])
    expect(await blockNumber(left)).toBe((await blockNumber(right)) + 1)
    expect(await right.usdcBalance(left.accounts.payer.address)).toBe(0n)
    await Promise.all([left.stop(), right.stop()])
  })

  it('a devnet mines at an interval with blockTimeSeconds', async () => {
    const devnet = await startTestDevnet({ blockTimeSeconds: 1 })
    const before = await blockNumber(devnet)
    await expect.poll(() => blockNumber(devnet)).toBeGreaterThan(before)
    await devnet.stop()
  })

  it('a devnet that fails to start reports the reason', async () => {
    const devnet = await startTestDevnet()
    const port = Number(new URL(devnet.rpcUrl).port)
    await expect(startTestDevnet({ port })).rejects.toThrow(/anvil ended .*[Aa]ddress/s)
    await devnet.stop()
  })
})
