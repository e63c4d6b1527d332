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
export interface PollPace {
  /** Waits until the next poll is due, in `longestMs` at the latest. */
  pause(longestMs?: number): Promise<void>
  /** Reports a poll, and whether it found a new block. */
  polled(hasMoved: boolean): void
  /** Polls soon, if the chain mines immediately or may do so. */
  hurry(): void
  /** Returns whether the chain mined immediately when that was last tried; `true` before. */
  minesImmediately(): boolean
}

/**
 * Creates the pace of a poll. A local chain mines a transaction within moments, and polling at block pace would delay
 * every call there. Whether the chain is one of these shows in a few quick polls, which are not repeated for a while
 * where they find nothing.
 */
export function createPollPace(): PollPace {
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
