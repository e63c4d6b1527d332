import { createPublicClient, custom, type EIP1193RequestFn, type PublicClient } from 'viem'
import { beforeEach, expect, it } from 'vitest'
import { base } from '#shared/adapters/chain/network/base-chain.ts'
import { createLatestBlock } from '#shared/adapters/chain/reading/latest-block.ts'
import { createReadTransaction, type ReadTransaction } from '#shared/adapters/chain/settlement/mined-transactions.ts'
import { type SharedReadings, shareReadings } from '#shared/adapters/chain/settlement/shared-readings.ts'

const hashOf = (digits: string) => `0x${digits.repeat(64)}` as const
const HASH = hashOf('a')
const BLOCK = hashOf('b')
const MINED = { transactionHash: HASH, blockNumber: '0x5', blockHash: BLOCK, status: '0x1', logs: [] }
const block = (number: string, hash: string) => ({
  number,
  hash,
  parentHash: BLOCK,
  timestamp: '0x9',
  transactions: [],
})

/** Answers to reads of the receipt, each given when the test chooses. */
let asked: ((receipt: object | Error | null) => void)[]
let newest: object
let read: ReadTransaction
let shared: SharedReadings
const readWith = (confirmations: number) => {
  const request = (async ({ method, params }: { method: string; params: readonly unknown[] }) => {
    if (method === 'eth_getBlockByNumber') return params[0] === 'latest' ? newest : block('0x5', BLOCK)
    return await new Promise<object | null>((resolve, reject) => {
      asked.push((answer) => (answer instanceof Error ? reject(answer) : resolve(answer)))
    })
  }) as unknown as EIP1193RequestFn
  const client = createPublicClient({ chain: base, transport: custom({ request }, { retryCount: 0 }), cacheTime: 0 })
  return createReadTransaction(client as PublicClient, confirmations, createLatestBlock(client as PublicClient))
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

beforeEach(() => {
  asked = []
  newest = block('0x5', BLOCK)
  shared = shareReadings(readWith(1))
  read = shared.read
})

it('shares a receipt with all who ask while it is read, and for a moment afterwards', async () => {
  const readings = [read(HASH), read(HASH), read(HASH)]
  await settled()
  asked[0]?.(MINED)
  const [one, other] = await Promise.all(readings)
  expect(one).toBe(other)
  const again = read(HASH)
  await settled()
  expect(asked).toHaveLength(1)
  expect(await again).toBe(one)
})

it('never answers that there is no receipt from a read that began before the question', async () => {
  const early = read(HASH)
  await settled()
  const late = [read(HASH), read(HASH)]
  asked[0]?.(null)
  expect(await early).toBe('pending')
  await settled()
  expect(asked).toHaveLength(2)
  asked[1]?.(MINED)
  for (const reading of await Promise.all(late)) expect(reading).toMatchObject({ receipt: { transactionHash: HASH } })
})

it('asks again for what was missing, and once for all who ask then', async () => {
  const early = read(HASH)
  await settled()
  const late = [read(HASH), read(HASH), read(HASH)]
  asked[0]?.(null)
  await early
  await settled()
  asked[1]?.(null)
  expect(await Promise.all(late)).toEqual(['pending', 'pending', 'pending'])
  expect(asked).toHaveLength(2)
})

it('keeps no failure and no receipt of a shallow block', async () => {
  const failing = read(HASH)
  await settled()
  asked[0]?.(new Error('no answer'))
  await expect(failing).rejects.toThrow('no answer')
  newest = block('0x4', hashOf('c'))
  const shallow = read(HASH)
  await settled()
  asked[1]?.(MINED)
  expect(await shallow).toBe('shallow')
  newest = block('0x5', BLOCK)
  const deep = read(HASH)
  await settled()
  asked[2]?.(MINED)
  expect(await deep).toMatchObject({ receipt: { transactionHash: HASH } })
})

it('answers from new reads only once it was told that the chain was read otherwise', async () => {
  const first = read(HASH)
  await settled()
  shared.forget()
  const second = read(HASH)
  await settled()
  expect(asked).toHaveLength(2)
  asked[0]?.(MINED)
  await first
  // A read that began before is not kept for those who ask now.
  const third = read(HASH)
  asked[1]?.({ ...MINED, status: '0x0' })
  expect(await second).toMatchObject({ receipt: { status: 'reverted' } })
  expect(await third).toBe(await second)
  shared.forget()
  const last = read(HASH)
  await settled()
  expect(asked).toHaveLength(3)
  asked[2]?.(MINED)
  expect(await last).toMatchObject({ receipt: { status: 'success' } })
})

it('reports no time for a block that was replaced after the receipt was read', async () => {
  newest = block('0x7', hashOf('d'))
  const reading = readWith(2)(HASH)
  await settled()
  asked[0]?.({ ...MINED, blockHash: hashOf('e') })
  const deep = await reading
  if (typeof deep === 'string') throw new Error(deep)
  expect(await deep.readTime()).toBeNull()
})
