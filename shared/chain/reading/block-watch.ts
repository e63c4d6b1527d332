import { createBlockRhythm, type NextBlock } from './block-rhythm.ts'
import type { Block, LatestBlock } from './latest-block.ts'

/**
 * Why a wait ended. `listed`: a new block contains one of the transactions. `moved`: the chain continued in a way that
 * may concern them, for example past blocks that were not seen. `elapsed`: the time is up. `aborted`: by the signal.
 */
export type ChainEvent = 'listed' | 'moved' | 'elapsed' | 'aborted'

interface NextOptions {
  /** The wait ends after this time in any case. */
  readonly longestMs: number
  readonly signal: AbortSignal
  /** Ends with every new block. For a transaction that is mined but not deep enough yet. */
  readonly everyBlock?: boolean
  /** A transaction was sent a moment ago; a chain that mines immediately is asked immediately. */
  readonly justSent?: boolean
}

/** Transactions of one settlement that are being followed. */
export interface Following {
  /** Replaces the transactions that are followed. */
  setTransactions(hashes: readonly Hex[]): void
  /** Waits for the next event. What happened since the previous wait ended counts as well. */
  next(options: NextOptions): Promise<ChainEvent>
  stop(): void
}

/** Follows the head of the chain for everything in this process that waits for a block, with one poll for all. */
export interface BlockWatch {
  /** Starts following transactions. Call it before they are sent, so that no block is missed. */
  follow(hashes: readonly Hex[]): Following
  /**
   * Returns when the next block is expected; `null` on a chain that mines immediately, and while too few blocks were
   * seen to tell.
   */
  nextBlock(): NextBlock | null
  /** Returns whether the chain mined immediately when that was last tried; `true` before. */
  minesImmediately(): boolean
}

/** Pause between two polls of a chain with a block time; shorter than a block, since callers are waiting. */
const POLL_MS = 250
/** Delay after a transaction was sent: a chain that mines immediately has mined it by then. */
const FIRST_PAUSE_MS = 1
const PAUSE_GROWTH = 6
/** The least time between two polls, however many transactions are sent. */
const LEAST_PAUSE_MS = 5
/** Two new blocks within this time: the chain mines immediately. */
const IMMEDIATE_MS = 500
/** How soon a chain that does not mine immediately is tried again. */
const TRY_AGAIN_MS = 10_000

/** Decides when the head of the chain is polled next. */
interface PollPace {
  /** Waits until the next poll is due, in `longestMs` at the latest. */
  pause(longestMs?: number): Promise<void>
  /** Reports a poll, and whether it found a new block. */
  polled(hasMoved: boolean): void
  /** Polls soon, if the chain mines immediately or may do so. */
  hurry(): void
  /** Returns whether the chain mined immediately when that was last tried; `true` before. */
  minesImmediately(): boolean
}

type Hex = `0x${string}`

/** How often a block that is due is asked for, and for how long: on time, it is seen within moments. */
const DUE_POLL_MS = 50
const DUE_POLLS_MS = 300

interface Follower {
  hashes: readonly Hex[]
  everyBlock: boolean
  /** Ends the current wait, or is remembered for the next one. */
  notify(event: ChainEvent): void
}

/**
 * Creates the watch of the chain's head. While anything waits, one poll for all reads the newest block with the hashes
 * of its transactions: one RPC call for each poll, none while nothing waits. Only those whose transaction is in the new
 * block are woken. When blocks were replaced, or passed between two polls, everything that waits is woken, since any
 * transaction may be in a block that was not seen.
 */
export function createBlockWatch(latest: LatestBlock): BlockWatch {
  const followers = new Set<Follower>()
  const pace = createPollPace()
  const rhythm = createBlockRhythm()
  let head: Block | null = null
  let headSeenMs = Number.NEGATIVE_INFINITY
  const waiting = new Set<Follower>()
  let isPolling = false

  const poll = async (): Promise<boolean> => {
    const block = await latest.read().catch(() => null)
    // A node behind the others is no news. While none answers, those that wait ask for their receipts by themselves.
    if (block === null || block.hash === head?.hash || (head && block.number < head.number)) return false
    const isNext = block.parentHash === head?.hash
    head = block
    headSeenMs = performance.now()
    rhythm.seen(block, headSeenMs)
    const listed = new Set(block.transactions)
    for (const follower of followers)
      if (follower.hashes.some((hash) => listed.has(hash))) follower.notify('listed')
      else if (!isNext || follower.everyBlock) follower.notify('moved')
    return true
  }

  const nextBlock = () => (pace.minesImmediately() ? null : rhythm.nextBlock(performance.now()))

  /** Returns the time until the next block is due; infinite while that is not known, or when it has been for long. */
  const untilDueMs = () => {
    const next = nextBlock()
    if (!next) return Number.POSITIVE_INFINITY
    const now = performance.now()
    if (headSeenMs >= next.sinceMs) return next.expectedMs - now
    return now - next.sinceMs < DUE_POLLS_MS ? DUE_POLL_MS : Number.POSITIVE_INFINITY
  }

  const pollWhileAnythingWaits = async () => {
    if (isPolling) return
    isPolling = true
    while (waiting.size > 0) {
      await pace.pause(untilDueMs())
      if (waiting.size > 0) pace.polled(await poll())
    }
    isPolling = false
  }

  return {
    nextBlock,
    minesImmediately: () => pace.minesImmediately(),
    follow: (hashes) => {
      let unread: ChainEvent | null = null
      let end: ((event: ChainEvent) => void) | null = null
      const follower: Follower = {
        hashes,
        everyBlock: false,
        notify: (event) => {
          if (end) end(event)
          else if (unread !== 'listed') unread = event
        },
      }
      followers.add(follower)
      const wait = ({ longestMs, signal }: NextOptions) =>
        new Promise<ChainEvent>((resolve) => {
          const onAbort = () => end?.('aborted')
          const timer = setTimeout(() => end?.('elapsed'), longestMs)
          signal.addEventListener('abort', onAbort, { once: true })
          waiting.add(follower)
          end = (event) => {
            clearTimeout(timer)
            signal.removeEventListener('abort', onAbort)
            waiting.delete(follower)
            end = null
            resolve(event)
          }
        })
      const following: Following = {
        setTransactions: (changed) => {
          follower.hashes = changed
        },
        next: async (options) => {
          const { signal, everyBlock = false, justSent = false } = options
          if (signal.aborted) return 'aborted'
          const event = unread
          unread = null
          if (event) return event
          follower.everyBlock = everyBlock
          if (justSent) pace.hurry()
          const waited = wait(options)
          void pollWhileAnythingWaits()
          return await waited
        },
        stop: () => void followers.delete(follower),
      }
      return following
    },
  }
}

/**
 * Creates the pace of a poll. A local chain mines a transaction within moments, and polling at block pace would delay
 * every call there. Whether the chain is one of these shows in a few quick polls, which are not repeated for a while
 * where they find nothing.
 */
function createPollPace(): PollPace {
  let minesImmediately = true
  let didMineImmediately = true
  let [movedAt, triedAt, polledAt] = [-Infinity, -Infinity, -Infinity]
  let pauseMs = FIRST_PAUSE_MS
  let longestPauseMs = Number.POSITIVE_INFINITY
  let wake: (() => void) | null = null
  let timer: ReturnType<typeof setTimeout> | undefined
  const arm = () => {
    clearTimeout(timer)
    const sinceLast = performance.now() - polledAt
    if (wake) timer = setTimeout(wake, Math.max(Math.min(pauseMs, longestPauseMs), LEAST_PAUSE_MS - sinceLast))
  }
  return {
    pause: async (longestMs = Number.POSITIVE_INFINITY) => {
      longestPauseMs = longestMs
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      arm()
      await promise
      wake = null
      polledAt = performance.now()
    },
    polled: (hasMoved) => {
      const now = performance.now()
      if (hasMoved) {
        minesImmediately = now - movedAt < IMMEDIATE_MS || (minesImmediately && pauseMs < POLL_MS)
        didMineImmediately = minesImmediately
        movedAt = now
        pauseMs = minesImmediately ? LEAST_PAUSE_MS : POLL_MS
        return
      }
      pauseMs = Math.min(pauseMs * PAUSE_GROWTH, POLL_MS)
      if (pauseMs === POLL_MS && now - movedAt > IMMEDIATE_MS) minesImmediately = didMineImmediately = false
    },
    hurry: () => {
      const now = performance.now()
      if (!minesImmediately && now - triedAt < TRY_AGAIN_MS) return
      triedAt = now
      minesImmediately = true
      pauseMs = FIRST_PAUSE_MS
      arm()
    },
    minesImmediately: () => didMineImmediately,
  }
}
