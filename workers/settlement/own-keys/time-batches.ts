import type { BlockWatch } from '#shared/chain/reading/block-watch.ts'

/** Time before an expected block in which a batch still reaches the node that builds it, beyond sending it. */
const MARGIN_MS = 200
/** The sends whose time counts: a slow one is not forgotten at once. */
const REMEMBERED_SENDS = 8
/** At most this part of a block's interval is given up for sending. */
const LARGEST_LEAD = 0.5

/** Those that go together next. */
export interface Gathered<Item> {
  readonly items: readonly Item[]
  /** Whether no other fits: there is nothing to wait for. */
  readonly isFull: boolean
}

export interface GatheringOptions<Item, Outcome> {
  /** Chooses among those that wait, oldest first; at least one. */
  readonly choose: (waiting: readonly Item[]) => Gathered<Item>
  /**
   * Sends them together. Calls `decide` with their outcomes as soon as those are known, and resolves when the next ones
   * may be sent; those with `null` go on waiting. Rejects when none has an outcome.
   */
  readonly send: (
    items: readonly Item[],
    decide: (outcomes: readonly (Outcome | Error | null)[]) => void,
  ) => Promise<void>
  /** Waits until those that were left without an outcome may get one. */
  readonly whenNonceFree: () => Promise<void>
  readonly nextBlock: BlockWatch['nextBlock']
}

/** Gathers what one settlement key sends. */
export interface Gathering<Item, Outcome> {
  add(item: Item): Promise<Outcome>
  /** Returns how many wait for an account nonce. */
  waitingForNonce(): number
}

interface Waiting<Item, Outcome> {
  readonly item: Item
  readonly resolve: (outcome: Outcome) => void
  readonly reject: (error: unknown) => void
}

/**
 * Creates a gathering that costs nobody time. Who comes alone goes alone at once. Those that come while others are being
 * sent go together afterwards. Once something was sent since the last block, the others wait until shortly before the
 * next one: they are mined no later, and share a transaction. Where the next block cannot be told, as on a chain that
 * mines immediately, nothing waits for it.
 */
export function createGathering<Item extends object, Outcome>({
  choose,
  send,
  whenNonceFree,
  nextBlock,
}: GatheringOptions<Item, Outcome>): Gathering<Item, Outcome> {
  const waiting = new Map<Item, Waiting<Item, Outcome>>()
  let isRunning = false
  let isWaitingForNonce = false
  let sentAt = Number.NEGATIVE_INFINITY
  let onAdded: (() => void) | null = null
  const sendMs: number[] = []

  /** Returns how long the next ones may still gather without missing the next block; 0 when they should go now. */
  const sendWindowMs = () => {
    const next = nextBlock()
    if (!next || sentAt < next.sinceMs) return 0
    const leadMs = Math.min(MARGIN_MS + Math.max(...sendMs), (next.expectedMs - next.sinceMs) * LARGEST_LEAD)
    return Math.max(0, next.expectedMs - leadMs - performance.now())
  }

  const gather = async (): Promise<readonly Item[]> => {
    for (;;) {
      const { items, isFull } = choose([...waiting.keys()])
      const pauseMs = isFull ? 0 : sendWindowMs()
      if (pauseMs === 0) return items
      await untilAdded(pauseMs, (wake) => {
        onAdded = wake
      })
      onAdded = null
    }
  }

  /** Lets those that have no outcome go on waiting, before the others. */
  const putBack = (left: readonly Waiting<Item, Outcome>[]) => {
    const later = [...waiting.values()]
    waiting.clear()
    for (const one of [...left, ...later]) waiting.set(one.item, one)
  }

  const run = async () => {
    isRunning = true
    // After everything that arrives in the same tick of the event loop.
    await nextTick()
    while (waiting.size > 0) {
      const going = (await gather()).flatMap((item) => waiting.get(item) ?? [])
      for (const { item } of going) waiting.delete(item)
      const startedAt = performance.now()
      let left: readonly Waiting<Item, Outcome>[] = []
      try {
        await send(
          going.map(({ item }) => item),
          (outcomes) => {
            left = going.filter((_, index) => outcomes[index] === null)
            settle(going, outcomes)
          },
        )
      } catch (error) {
        for (const { reject } of going) reject(error)
      }
      if (left.length < going.length) {
        sentAt = performance.now()
        sendMs.push(sentAt - startedAt)
        if (sendMs.length > REMEMBERED_SENDS) sendMs.shift()
      }
      if (left.length > 0) {
        putBack(left)
        isWaitingForNonce = true
        await whenNonceFree()
        isWaitingForNonce = false
      }
      await nextTick()
    }
    isRunning = false
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        waiting.set(item, { item, resolve, reject })
        onAdded?.()
        if (!isRunning) void run()
      }),
    waitingForNonce: () => (isWaitingForNonce ? waiting.size : 0),
  }
}

function settle<Item, Outcome>(
  going: readonly Waiting<Item, Outcome>[],
  outcomes: readonly (Outcome | Error | null)[],
): void {
  for (const [index, { resolve, reject }] of going.entries()) {
    const outcome = outcomes[index]
    if (outcome instanceof Error) reject(outcome)
    else if (outcome === undefined) reject(new Error('a settlement was left without an outcome'))
    else if (outcome !== null) resolve(outcome)
  }
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Resolves after the pause, or earlier when another one is added: it may make the batch full. */
async function untilAdded(pauseMs: number, onWait: (wake: () => void) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, pauseMs)
  onWait(resolve)
  await promise
  clearTimeout(timer)
}
