/** How calls are shared. */
export interface SharingLimits {
  /** Most items of one call. May change between calls. */
  readonly maximum: () => number
  /** An item waits at most this long for others, or for a call in progress; less while calls are answered sooner. */
  readonly longestWaitMs: number
  /** A full call leaves without waiting while fewer than this are in progress. */
  readonly callsAtOnce: number
}

/** Many items arrive when this many did within this time, and one of them met another. */
const MANY = 6
const MANY_WITHIN_MS = 100

/** The weight of the last call in the average of what calls take: about the last eight count. */
const LAST_CALL_WEIGHT = 0.25

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

/**
 * Creates a function whose concurrent callers share calls of `run`. One that comes alone leaves at once, and those that
 * arrive while a call is in progress share the next one. While many arrive, each waits for others, since a call costs
 * more than its items: as long as a call takes, for a node that answers in 4 ms is not worth 20 ms of waiting. No call
 * that hangs delays others for longer than `longestWaitMs`.
 *
 * `run` returns a result for each item, in their order; if it rejects, every caller of that call gets the error.
 */
export function shareCalls<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  { maximum, longestWaitMs, callsAtOnce }: SharingLimits,
): (item: Item) => Promise<Result> {
  let waiting: Waiting<Item, Result>[] = []
  let callsInProgress = 0
  let isScheduled = false
  let deadline: NodeJS.Timeout | null = null
  const traffic = watchTraffic()
  const pace = measureCalls(longestWaitMs)

  const leave = () => {
    const leaving = waiting.slice(0, maximum())
    waiting = waiting.slice(leaving.length)
    if (waiting.length === 0) stopWaiting()
    callsInProgress += 1
    const leftAt = performance.now()
    void deliver(run, leaving).finally(() => {
      callsInProgress -= 1
      pace.ended(performance.now() - leftAt)
      if (waiting.length > 0 && !traffic.isHeavy()) leave()
    })
  }
  const stopWaiting = () => {
    if (deadline) clearTimeout(deadline)
    deadline = null
  }
  const leaveAll = () => {
    deadline = null
    while (waiting.length > 0) leave()
  }
  /** Decides after everything that arrived in the same tick of the event loop. */
  const decide = () => {
    isScheduled = false
    if (waiting.length === 0) return
    if (callsInProgress === 0 && !traffic.isHeavy()) leave()
    const mayLeave = Math.min(callsAtOnce - callsInProgress, Math.floor(waiting.length / maximum()))
    for (let left = 0; left < mayLeave; left += 1) leave()
    if (waiting.length > 0) deadline ??= setTimeout(leaveAll, pace.waitMs())
  }
  return (item) =>
    new Promise((resolve, reject) => {
      traffic.arrive(callsInProgress > 0 || waiting.length > 0)
      waiting.push({ item, resolve, reject })
      if (isScheduled) return
      isScheduled = true
      setImmediate(decide)
    })
}

async function deliver<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  leaving: readonly Waiting<Item, Result>[],
): Promise<void> {
  try {
    const results = await run(leaving.map(({ item }) => item))
    if (results.length !== leaving.length) throw new Error('a shared call returned another number of results')
    for (const [index, { resolve }] of leaving.entries()) resolve(results[index] as Result)
  } catch (error) {
    for (const { reject } of leaving) reject(error)
  }
}

/** Averages what recent calls took. Before the first one has ended, they are taken for slow. */
function measureCalls(longestWaitMs: number) {
  let averageMs = longestWaitMs
  return {
    /** One call that hangs says little about the next ones. */
    ended: (tookMs: number): void => {
      averageMs += (Math.min(tookMs, longestWaitMs) - averageMs) * LAST_CALL_WEIGHT
    },
    waitMs: (): number => averageMs,
  }
}

/** Recognizes concurrent traffic. One caller that comes again and again, however often, meets nobody. */
function watchTraffic() {
  const arrivals: number[] = Array.from({ length: MANY }, () => Number.NEGATIVE_INFINITY)
  let metAt = Number.NEGATIVE_INFINITY
  return {
    arrive: (meetsAnother: boolean): void => {
      const time = performance.now()
      arrivals.push(time)
      arrivals.shift()
      if (meetsAnother) metAt = time
    },
    isHeavy: (): boolean => {
      const since = performance.now() - MANY_WITHIN_MS
      return metAt > since && (arrivals[0] ?? 0) > since
    },
  }
}
