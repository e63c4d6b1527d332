import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { NextBlock } from '#shared/payment/block-watch.ts'
import { createGathering, type Gathering } from '../../../workers/settlement/own-keys/gathering.ts'

const BLOCK_MS = 2000
const SEND_MS = 20
const MOST = 3

/** When blocks come by the chain's own rhythm, from the time at which the fake clock starts. */
const inBlocks = (): NextBlock => {
  const sinceMs = Math.floor(performance.now() / BLOCK_MS) * BLOCK_MS
  return { sinceMs, expectedMs: sinceMs + BLOCK_MS }
}

interface Item {
  readonly name: string
}

interface Sent {
  readonly atMs: number
  readonly names: string
}

/** Gathers up to three; records what is sent, and when. Sending takes 20 ms. */
function gatheringOf(nextBlock: () => NextBlock | null, failing = new Set<string>()) {
  const sent: Sent[] = []
  const gathering: Gathering<Item, string> = createGathering<Item, string>({
    choose: (waiting) => ({ items: waiting.slice(0, MOST), isFull: waiting.length >= MOST }),
    send: async (items, decide) => {
      sent.push({ atMs: performance.now() - startMs, names: items.map(({ name }) => name).join(' ') })
      if (items.some(({ name }) => failing.has(name))) throw new Error('not stored')
      decide(items.map(({ name }) => (name === 'bad' ? new Error('bad') : `${name} sent`)))
      await new Promise((resolve) => setTimeout(resolve, SEND_MS))
    },
    nextBlock,
  })
  const add = (names: string) => names.split(' ').map((name) => gathering.add({ name }))
  return { add, come: (names: string) => void add(names), sent }
}

let startMs = 0
const at = async (untilMs: number) => {
  await vi.advanceTimersByTimeAsync(untilMs - (performance.now() - startMs))
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  startMs = Math.ceil(performance.now() / BLOCK_MS) * BLOCK_MS
  vi.advanceTimersByTime(startMs - performance.now())
})
afterEach(() => {
  vi.useRealTimers()
})

/** The next block of a chain that mines immediately cannot be told. */
const immediately = () => null

describe('on a chain that mines immediately', () => {
  it('sends one that comes alone at once', async () => {
    const { add, sent } = gatheringOf(immediately)
    const [outcome] = add('a')
    await at(1)
    expect(sent).toEqual([{ atMs: 0, names: 'a' }])
    expect(await outcome).toBe('a sent')
  })

  it('sends together what arrives in the same moment', async () => {
    const { come, sent } = gatheringOf(immediately)
    come('a b')
    await at(1)
    expect(sent).toEqual([{ atMs: 0, names: 'a b' }])
  })

  it('gathers while others are sent, and sends those at once afterwards', async () => {
    const { come, sent } = gatheringOf(immediately)
    come('a')
    await at(5)
    come('b')
    await at(10)
    come('c')
    await at(SEND_MS - 1)
    expect(sent).toHaveLength(1)
    await at(SEND_MS + 5)
    expect(sent.map(({ names }) => names)).toEqual(['a', 'b c'])
  })

  it('leaves those that do not fit to the next batch', async () => {
    const { come, sent } = gatheringOf(immediately)
    come('a b c d')
    await at(100)
    expect(sent.map(({ names }) => names)).toEqual(['a b c', 'd'])
  })
})

describe('on a chain with blocks', () => {
  it('sends the first of a block at once, and gathers others until shortly before the next block', async () => {
    const { come, sent } = gatheringOf(inBlocks)
    await at(300)
    come('a')
    await at(600)
    come('b')
    await at(1500)
    come('c')
    await at(1700)
    expect(sent).toEqual([{ atMs: 300, names: 'a' }])
    await at(BLOCK_MS)
    expect(sent[1]?.names).toBe('b c')
    // Early enough to be stored, sent and taken into the block.
    expect(sent[1]?.atMs).toBeLessThanOrEqual(BLOCK_MS - SEND_MS - 100)
    expect(sent[1]?.atMs).toBeGreaterThan(1700)
  })

  it('sends a full batch at once', async () => {
    const { come, sent } = gatheringOf(inBlocks)
    come('a')
    await at(100)
    come('b c')
    await at(200)
    expect(sent).toHaveLength(1)
    come('d')
    await at(201)
    expect(sent[1]).toEqual({ atMs: 200, names: 'b c d' })
  })

  it('does not wait for the next block when the time for this one is nearly up', async () => {
    const { come, sent } = gatheringOf(inBlocks)
    come('a')
    await at(1950)
    come('b')
    await at(1960)
    expect(sent[1]).toEqual({ atMs: 1950, names: 'b' })
  })

  it('begins anew with each block, even when nothing was mined', async () => {
    const { come, sent } = gatheringOf(inBlocks)
    come('a')
    await at(BLOCK_MS + 10)
    come('b')
    await at(BLOCK_MS + 11)
    expect(sent[1]).toEqual({ atMs: BLOCK_MS + 10, names: 'b' })
  })

  it('stops waiting once the next block cannot be told any more', async () => {
    let isKnown = true
    const { come, sent } = gatheringOf(() => (isKnown ? inBlocks() : null))
    come('a')
    await at(100)
    come('b')
    await at(200)
    isKnown = false
    come('c')
    await at(201)
    expect(sent[1]).toEqual({ atMs: 200, names: 'b c' })
  })

  it('allows more time for sending after it took long', async () => {
    const { come, sent } = gatheringOf(inBlocks)
    come('a')
    await at(BLOCK_MS * 3)
    come('b')
    await at(BLOCK_MS * 3 + 100)
    come('c')
    await at(BLOCK_MS * 4)
    const leadMs = BLOCK_MS * 4 - (sent.at(-1)?.atMs ?? 0)
    expect(leadMs).toBeGreaterThanOrEqual(200 + SEND_MS)
    expect(leadMs).toBeLessThanOrEqual(BLOCK_MS / 2)
  })
})

describe('failures', () => {
  it('fails those that could not be sent together, and goes on with the others', async () => {
    const { add, sent } = gatheringOf(() => null, new Set(['broken']))
    const outcomes = Promise.allSettled(add('broken a'))
    await at(1)
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const [next] = add('b')
    await at(50)
    expect(await next).toBe('b sent')
    expect(sent.map(({ names }) => names)).toEqual(['broken a', 'b'])
  })

  it('fails one alone whose outcome is an error', async () => {
    const { add } = gatheringOf(() => null)
    const [good, bad] = add('a bad')
    const outcomes = Promise.allSettled([bad])
    await at(1)
    expect(await outcomes).toMatchObject([{ status: 'rejected', reason: new Error('bad') }])
    expect(await good).toBe('a sent')
  })
})
