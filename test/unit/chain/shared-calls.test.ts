import { createPublicClient, custom, type EIP1193RequestFn, type PublicClient } from 'viem'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { base } from '#shared/chain/network/base-chain.ts'
import { shareCalls } from '#shared/chain/network/share-calls.ts'
import { createLatestBlock } from '#shared/chain/reading/latest-block.ts'
import { createReadTransaction, type ReadTransaction } from '#shared/chain/settlement/mined-transactions.ts'
import { type SharedReadings, shareReadings } from '#shared/chain/settlement/shared-readings.ts'

/** Shares calls that end only when the test ends them, of at most four items, two at once. */
function openShared(maximum = () => 4) {
  const calls: { readonly items: readonly number[]; readonly end: (results?: readonly string[] | Error) => void }[] = []
  const share = shareCalls<number, string>(
    (items) => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
      const end = (results: readonly string[] | Error = items.map((item) => `result ${item}`)) =>
        results instanceof Error ? reject(results) : resolve(results)
      calls.push({ items, end })
      return promise
    },
    { maximum, longestWaitMs: 25, callsAtOnce: 2 },
  )
  const items = () => calls.map((call) => call.items)
  return { share, calls, items }
}
const turn = () => vi.advanceTimersByTimeAsync(0)
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
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('sharing calls', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('one that comes alone leaves in the same turn, and gets its own result', async () => {
    const { share, calls, items } = openShared()
    const result = share(1)
    await turn()
    expect(items()).toEqual([[1]])
    calls[0]?.end()
    expect(await result).toBe('result 1')
  })

  it('those that arrive during a call leave together when it ends', async () => {
    const { share, calls, items } = openShared()
    const results = [share(1)]
    await turn()
    results.push(share(2))
    await turn()
    results.push(share(3))
    await turn()
    expect(items()).toEqual([[1]])
    calls[0]?.end()
    await turn()
    expect(items()).toEqual([[1], [2, 3]])
    calls[1]?.end()
    expect(await Promise.all(results)).toEqual(['result 1', 'result 2', 'result 3'])
  })

  it('waits at most 25 ms for a call that does not end', async () => {
    const { share, items } = openShared()
    void share(1)
    await turn()
    void share(2)
    await vi.advanceTimersByTimeAsync(20)
    void share(3)
    await vi.advanceTimersByTimeAsync(4)
    expect(items()).toEqual([[1]])
    await vi.advanceTimersByTimeAsync(1)
    expect(items()).toEqual([[1], [2, 3]])
  })

  it('a full call leaves during another one, and no third one before the wait is over', async () => {
    const { share, items } = openShared()
    void share(0)
    await turn()
    for (let item = 1; item <= 9; item += 1) void share(item)
    await turn()
    expect(items()).toEqual([[0], [1, 2, 3, 4]])
    await vi.advanceTimersByTimeAsync(25)
    expect(items()).toEqual([[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]])
  })

  it('those that arrive in one turn of an idle process share a call', async () => {
    const { share, items } = openShared()
    for (let item = 1; item <= 6; item += 1) void share(item)
    await turn()
    expect(items()).toEqual([[1, 2, 3, 4]])
    await vi.advanceTimersByTimeAsync(25)
    expect(items()).toEqual([
      [1, 2, 3, 4],
      [5, 6],
    ])
  })

  it('follows a limit that changes', async () => {
    let maximum = 4
    const { share, calls, items } = openShared(() => maximum)
    for (let item = 1; item <= 2; item += 1) void share(item)
    await turn()
    maximum = 1
    for (let item = 3; item <= 5; item += 1) void share(item)
    await turn()
    expect(items()).toEqual([[1, 2], [3]])
    calls[0]?.end()
    await turn()
    expect(items()).toEqual([[1, 2], [3], [4]])
    await vi.advanceTimersByTimeAsync(25)
    expect(items()).toEqual([[1, 2], [3], [4], [5]])
  })

  it('one caller who comes again and again waits for nobody', async () => {
    const { share, calls, items } = openShared()
    for (let item = 0; item < 20; item += 1) {
      const result = share(item)
      await turn()
      calls[item]?.end()
      expect(await result).toBe(`result ${item}`)
      await vi.advanceTimersByTimeAsync(3)
    }
    expect(items()).toHaveLength(20)
  })

  it('waits for others while many arrive, although no call is in progress, and not once they are few', async () => {
    const { share, calls, items } = openShared()
    for (let item = 1; item <= 6; item += 1) void share(item)
    await vi.advanceTimersByTimeAsync(50)
    for (const call of calls) call.end()
    await turn()
    void share(7)
    await vi.advanceTimersByTimeAsync(24)
    void share(8)
    await turn()
    expect(items()).toEqual([
      [1, 2, 3, 4],
      [5, 6],
    ])
    await vi.advanceTimersByTimeAsync(1)
    expect(items().slice(2)).toEqual([[7, 8]])
    calls[2]?.end()
    await vi.advanceTimersByTimeAsync(100)
    void share(9)
    await turn()
    expect(items().slice(3)).toEqual([[9]])
  })

  it('waits no longer than calls take, and as long as it may again once they are slow', async () => {
    const { share, calls, items } = openShared()
    const endAllAfter = async (ms: number) => {
      const first = calls.length
      for (let item = 0; item < 8; item += 1) void share(item)
      await turn()
      await vi.advanceTimersByTimeAsync(ms)
      for (const call of calls.slice(first)) call.end()
      await turn()
    }
    for (let round = 0; round < 20; round += 1) await endAllAfter(5)
    const fast = calls.length
    void share(1)
    await vi.advanceTimersByTimeAsync(4)
    void share(2)
    await turn()
    expect(items().slice(fast)).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(items().slice(fast)).toEqual([[1, 2]])
    calls.at(-1)?.end()
    await turn()

    for (let round = 0; round < 20; round += 1) await endAllAfter(60)
    const slow = calls.length
    void share(3)
    await vi.advanceTimersByTimeAsync(23)
    expect(items().slice(slow)).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(items().slice(slow)).toEqual([[3]])
  })

  it('rejects all of a call that fails or returns another number of results, and serves the next one', async () => {
    const { share, calls } = openShared()
    const broken = [new Error('no node'), ['result 1'], ['result 1', 'result 2', 'result 3']]
    for (const [index, results] of broken.entries()) {
      const outcomes = Promise.allSettled([share(1), share(2)])
      await vi.advanceTimersByTimeAsync(25)
      calls[index]?.end(results)
      expect(await outcomes).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }])
    }
    const result = share(1)
    await vi.advanceTimersByTimeAsync(25)
    calls.at(-1)?.end()
    expect(await result).toBe('result 1')
  })
})

describe('readings that callers share', () => {
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

  it('keeps no receipt of a block that was replaced after it was read', async () => {
    newest = block('0x7', hashOf('d'))
    const { read: readDeep } = shareReadings(readWith(2))
    const replaced = readDeep(HASH)
    await settled()
    asked[0]?.({ ...MINED, blockHash: hashOf('e') })
    expect(await replaced).toBe('pending')
    const mined = readDeep(HASH)
    await settled()
    asked[1]?.(MINED)
    expect(await mined).toMatchObject({ receipt: { blockHash: BLOCK } })
  })
})
