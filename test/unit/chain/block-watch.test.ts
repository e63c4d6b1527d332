import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createBlockWatch } from '#shared/adapters/chain/reading/block-watch.ts'
import type { Block } from '#shared/adapters/chain/reading/latest-block.ts'
import type { ChainNews, Following } from '#shared/payment/block-watch.ts'

type Hex = `0x${string}`

const LONG_MS = 3_600_000
const SEVERAL_POLLS_MS = 600
const { signal } = new AbortController()

function blockOf(number: number, transactions: readonly Hex[] = [], branch = 'a'): Block {
  const hashOf = (height: number): Hex => `0x${branch}${height}`
  return { number: BigInt(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: 0n, transactions }
}

/** Creates a watch of a chain whose head the test sets. */
function watchChain() {
  const chain = { head: blockOf(1), polls: 0 }
  const watch = createBlockWatch({
    read: async () => {
      chain.polls += 1
      return chain.head
    },
    recent: () => null,
  })
  return { chain, watch }
}

/** Waits, and records the news under a name. */
async function collect(told: Record<string, ChainNews>, name: string, following: Following, everyBlock = false) {
  told[name] = await following.next({ longestMs: LONG_MS, signal, everyBlock })
}

/** Lets the watch see the present head. */
async function settle(watch: ReturnType<typeof watchChain>['watch']) {
  const following = watch.follow([])
  await following.next({ longestMs: LONG_MS, signal, everyBlock: true })
  following.stop()
}

describe('a watch of the head', () => {
  it('wakes only those whose transaction is in the next block', async () => {
    const { chain, watch } = watchChain()
    await settle(watch)
    const told: Record<string, ChainNews> = {}
    void collect(told, 'mined', watch.follow(['0x01']))
    void collect(told, 'waiting', watch.follow(['0x02']))
    void collect(told, 'deep', watch.follow(['0x03']), true)
    chain.head = blockOf(2, ['0x01', '0x09'])
    await expect.poll(() => told).toEqual({ mined: 'listed', deep: 'moved' })
    chain.head = blockOf(3, ['0x02'])
    await expect.poll(() => told).toEqual({ mined: 'listed', deep: 'moved', waiting: 'listed' })
  })

  it.each([
    ['blocks were not seen', blockOf(5)],
    ['the last block was replaced', blockOf(2, [], 'b')],
  ])('wakes everything that waits when %s', async (_, head) => {
    const { chain, watch } = watchChain()
    await settle(watch)
    const told: Record<string, ChainNews> = {}
    void collect(told, 'one', watch.follow(['0x01']))
    void collect(told, 'other', watch.follow(['0x02']))
    chain.head = head
    await expect.poll(() => told).toEqual({ one: 'moved', other: 'moved' })
  })

  it('ignores a node that is behind', async () => {
    const { chain, watch } = watchChain()
    chain.head = blockOf(3)
    await settle(watch)
    const told: Record<string, ChainNews> = {}
    void collect(told, 'one', watch.follow(['0x01']))
    const { polls } = chain
    chain.head = blockOf(2, ['0x01'])
    await expect.poll(() => chain.polls).toBeGreaterThan(polls + 1)
    expect(told).toEqual({})
    chain.head = blockOf(4, ['0x01'])
    await expect.poll(() => told).toEqual({ one: 'listed' })
  })

  it('remembers what happened between two waits', async () => {
    const { chain, watch } = watchChain()
    await settle(watch)
    const following = watch.follow(['0x01'])
    chain.head = blockOf(2, ['0x01'])
    await settle(watch)
    expect(await following.next({ longestMs: LONG_MS, signal })).toBe('listed')
  })

  it('polls once for all, and not at all while nothing waits', async () => {
    const { chain, watch } = watchChain()
    await settle(watch)
    const { polls } = chain
    const gone = new AbortController()
    const waits = Array.from({ length: 100 }, () =>
      watch.follow(['0x01']).next({ longestMs: LONG_MS, signal: gone.signal }),
    )
    await expect.poll(() => chain.polls).toBeGreaterThan(polls)
    expect(chain.polls).toBeLessThan(polls + 100)
    gone.abort()
    expect(new Set(await Promise.all(waits))).toEqual(new Set(['aborted']))
    const ended = chain.polls
    await delay(SEVERAL_POLLS_MS)
    expect(chain.polls).toBeLessThanOrEqual(ended + 1)
  })

  it('ends a wait when its time is up', async () => {
    const { watch } = watchChain()
    await settle(watch)
    expect(await watch.follow(['0x01']).next({ longestMs: 1, signal })).toBe('elapsed')
  })
})
