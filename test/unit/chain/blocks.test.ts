import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { toHex } from 'viem'
import { describe, expect, it } from 'vitest'
import { ZodError } from 'zod'
import { headAgeMs, headOf, isBehind } from '#shared/chain/network/node-head.ts'
import { createBlockRhythm } from '#shared/chain/reading/block-rhythm.ts'
import type { ChainEvent, Following } from '#shared/chain/reading/block-watch.ts'
import { createBlockWatch } from '#shared/chain/reading/block-watch.ts'
import { findFirstBlock } from '#shared/chain/reading/find-first-block.ts'
import type { Block } from '#shared/chain/reading/latest-block.ts'

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
async function collect(told: Record<string, ChainEvent>, name: string, following: Following, everyBlock = false) {
  told[name] = await following.next({ longestMs: LONG_MS, signal, everyBlock })
}
/** Lets the watch see the present head. */
async function settle(watch: ReturnType<typeof watchChain>['watch']) {
  const following = watch.follow([])
  await following.next({ longestMs: LONG_MS, signal, everyBlock: true })
  following.stop()
}
const INTERVAL_MS = 2000
/** When block 0 came, by the clock of the process. */
const FIRST_MS = 100
/** Returns a rhythm that saw these blocks, each some time after it came. */
function after(seen: readonly (readonly [number: number, lateMs: number])[], secondsEach = 2) {
  const rhythm = createBlockRhythm()
  for (const [number, lateMs] of seen)
    rhythm.seen(
      { number: BigInt(number), timestamp: BigInt(1000 + number * secondsEach) },
      FIRST_MS + number * secondsEach * 1000 + lateMs,
    )
  return rhythm
}
const cameMs = (number: number) => FIRST_MS + number * INTERVAL_MS
/** A chain whose blocks have these times; counts how many blocks are read. */
function chainOf(timeOf: (block: bigint) => bigint) {
  const chain = {
    reads: 0,
    getBlock: async ({ blockNumber }: { blockNumber: bigint }) => {
      chain.reads += 1
      return { timestamp: timeOf(blockNumber) }
    },
  }
  return chain
}

describe('a watch of the head', () => {
  it('wakes only those whose transaction is in the next block', async () => {
    const { chain, watch } = watchChain()
    await settle(watch)
    const told: Record<string, ChainEvent> = {}
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
    const told: Record<string, ChainEvent> = {}
    void collect(told, 'one', watch.follow(['0x01']))
    void collect(told, 'other', watch.follow(['0x02']))
    chain.head = head
    await expect.poll(() => told).toEqual({ one: 'moved', other: 'moved' })
  })

  it('ignores a node that is behind', async () => {
    const { chain, watch } = watchChain()
    chain.head = blockOf(3)
    await settle(watch)
    const told: Record<string, ChainEvent> = {}
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

describe('the expected next block', () => {
  it('follows the block that was seen earliest in relation to its number', () => {
    const rhythm = after([
      [1, 200],
      [2, 10],
      [3, 240],
    ])
    expect(rhythm.nextBlock(cameMs(3) + 300)).toEqual({ sinceMs: cameMs(3) + 10, expectedMs: cameMs(4) + 10 })
  })

  it('is continued past blocks that were not seen', () => {
    const rhythm = after([
      [1, 10],
      [2, 10],
      [5, 10],
    ])
    expect(rhythm.nextBlock(cameMs(9) + 500)).toEqual({ sinceMs: cameMs(9) + 10, expectedMs: cameMs(10) + 10 })
  })

  it('is the next possible one where blocks were missed', () => {
    const rhythm = createBlockRhythm()
    for (const [number, seconds] of [
      [1n, 12n],
      [2n, 24n],
      [3n, 48n],
    ] as const)
      rhythm.seen({ number, timestamp: seconds }, Number(seconds) * 1000)
    expect(rhythm.nextBlock(49_000)).toEqual({ sinceMs: 48_000, expectedMs: 60_000 })
  })

  it('forgets the blocks that a reorganization replaced', () => {
    const rhythm = after([
      [1, 10],
      [2, 10],
      [3, 10],
    ])
    rhythm.seen({ number: 2n, timestamp: 1004n }, cameMs(3) + 500)
    expect(rhythm.nextBlock(cameMs(3) + 600)).toBeNull()
  })

  it.each([
    [
      'too few blocks were seen',
      after([
        [1, 0],
        [2, 0],
      ]),
      cameMs(2),
    ],
    [
      'the last one was seen long ago',
      after([
        [1, 0],
        [2, 0],
        [3, 0],
      ]),
      cameMs(3) + 60_000,
    ],
    [
      'blocks share a second',
      after(
        [
          [1, 0],
          [2, 0],
          [3, 0],
        ],
        0,
      ),
      FIRST_MS,
    ],
  ] as const)('is unknown when %s', (_, rhythm, nowMs) => {
    expect(rhythm.nextBlock(nowMs)).toBeNull()
  })
})

describe('the newest block of a node', () => {
  const now = new Date()
  const headAt = (number: number, ageMs: number, seenMsAgo = 0) => ({
    number: BigInt(number),
    timestampMs: now.getTime() - ageMs,
    firstSeenMs: performance.now() - seenMsAgo,
  })

  it.each([
    ['4 blocks less and old', headAt(6, 8000), headAt(10, 0), true],
    ['3 blocks less', headAt(7, 8000), headAt(10, 2000), false],
    ['more than 10 s older, a block less', headAt(9, 10_001), headAt(10, 0), true],
    ['10 s older, a block less', headAt(9, 10_000), headAt(10, 0), false],
    ['4 blocks less and young', headAt(6, 5000), headAt(10, 0), false],
    [
      '4 blocks less and young by a clock that is behind, but seen long ago',
      headAt(6, -9000, 7000),
      headAt(10, 0),
      true,
    ],
    ['an hour more', headAt(1800, 0), headAt(0, 3_600_000), false],
  ])('with %s than another’s: %#', (_, head, other, expected) => {
    expect(isBehind(head, other, now)).toBe(expected)
  })

  it('ages from its own time or since it was first seen, whichever is longer, while it stays the same', () => {
    const answer = (number: number, ageMs: number) => ({
      number: toHex(number),
      timestamp: toHex(Math.floor((now.getTime() - ageMs) / 1000)),
    })
    const first = headOf(answer(7, 5000), null)
    expect(headAgeMs(first, now)).toBeGreaterThanOrEqual(5000)
    const longAgo = { ...first, timestampMs: now.getTime() + 60_000, firstSeenMs: first.firstSeenMs - 30_000 }
    expect(headAgeMs(longAgo, now)).toBeGreaterThanOrEqual(30_000)
    expect(headOf(answer(7, 0), longAgo).firstSeenMs).toBe(longAgo.firstSeenMs)
    expect(headOf(answer(8, 0), longAgo).firstSeenMs).toBeGreaterThan(longAgo.firstSeenMs)
  })

  it.each([null, {}, { number: '0x1' }, { number: null, timestamp: '0x1' }, { number: '1', timestamp: '0x1' }])(
    'is not read from %j',
    (answer) => {
      expect(() => headOf(answer, null)).toThrow(ZodError)
    },
  )
})

describe('the first block at or after a time', () => {
  it('is found on any chain, and is the lowest one considered where that is later', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.bigInt(0n, 9n), { minLength: 1, maxLength: 60 }),
        fc.bigInt(-5n, 300n),
        fc.nat(),
        async (pauses, time, seed) => {
          let now = 0n
          const times = pauses.map((pause) => (now += pause))
          const lowest = seed % times.length
          const first = times.findIndex((each, index) => index >= lowest && each >= time)
          const found = await findFirstBlock(
            chainOf((block) => times[Number(block)] ?? 0n),
            time,
            BigInt(times.length - 1),
            BigInt(lowest),
          )
          expect(found).toBe(BigInt(first === -1 ? times.length : first))
        },
      ),
    )
  })

  it.each([
    ['a recent time', 79_999_000n, 0n, 4],
    ['a time before every block', 0n, 0n, 2],
    ['a time before the lowest block considered', 5000n, 39_995_000n, 2],
    ['a time after the head', 90_000_000n, 0n, 1],
  ])('takes few reads for %s on a chain with constant block time', async (_, time, lowest, reads) => {
    const chain = chainOf((block) => 2n * block)
    await findFirstBlock(chain, time, 40_000_000n, lowest)
    expect(chain.reads).toBeLessThanOrEqual(reads)
  })
})
