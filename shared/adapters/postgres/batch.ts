import DataLoader from 'dataloader'
import { isConnectionFailure } from '../connection-failure.ts'

interface BatchOptions {
  /**
   * How long the next batch waits at most for the one in progress, in milliseconds; unlimited by default. With a limit,
   * a statement that hangs delays nobody but those in it.
   */
  readonly longestWaitMs?: number
}

/**
 * Creates a function that batches concurrent calls: items that arrive while `run` is in progress are passed together to
 * the next `run`; a single item is not delayed. `run` returns a result or an error for each item, in their order; if it
 * throws, every call of the batch rejects with that error.
 */
export function batch<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>,
  maximumBatch: number,
  { longestWaitMs }: BatchOptions = {},
): (item: Item) => Promise<Result> {
  let inProgress: Promise<unknown> = Promise.resolve()
  const loader = new DataLoader<Item, Result>(
    (items) => {
      const running = run(items)
      const settled = running.catch(() => undefined)
      inProgress = longestWaitMs === undefined ? settled : endOrTimeout(settled, longestWaitMs)
      return running
    },
    {
      cache: false,
      maxBatchSize: maximumBatch,
      // After everything that arrived in the same turn of the event loop has been read.
      batchScheduleFn: (runNext) => void inProgress.then(() => setImmediate(runNext)),
    },
  )
  return (item) => loader.load(item)
}

/** With a plain timer: canceling one of node:timers/promises makes an error with a stack, for nearly every batch. */
async function endOrTimeout(work: Promise<unknown>, longestMs: number): Promise<void> {
  const timeout = Promise.withResolvers<void>()
  const timer = setTimeout(timeout.resolve, longestMs)
  await Promise.race([work, timeout.promise])
  clearTimeout(timer)
}

/** A statement for many items, and the same for one. */
export interface SharedStatement<Item, Result> {
  /** Two items with one key are never in one statement: the second one goes with the next. */
  readonly keyOf: (item: Item) => string
  /**
   * Of items with one turn that the statement left out, one is done alone, and the others go together after it: alone, all
   * of them would wait for the same lock, each on a connection. By default each key has a turn of its own. Those of a
   * statement that failed are done alone one after the other.
   */
  readonly turnOf?: (item: Item) => string
  /**
   * Runs the statement for all items. Returns results, or errors of single items, by key; an item without one is left to
   * `alone`, as all are when it throws. It must change nothing for those.
   */
  readonly together: (items: readonly Item[]) => Promise<ReadonlyMap<string, Result | Error>>
  readonly alone: (item: Item) => Promise<Result>
}

/** An item, and how many were asked for before it. */
interface Asked<Item> {
  readonly item: Item
  readonly order: number
}

/** Rows of one statement at most: a few milliseconds of work. */
const MAXIMUM_ROWS = 64
/** Longer than a statement takes on a busy server. */
const LONGEST_WAIT_MS = 50
/** How long items wait for one of their turn that is done alone: it may wait for something that is its own. */
const LONGEST_TURN_MS = 1000

/**
 * Creates a function that runs a statement for all who wait for it at the same time, and for a single one alone. An item
 * that the shared statement did not do, or that failed with it, is done alone, where it waits and fails for itself: no
 * item fails with another one's error, except that the server cannot be reached.
 */
export function shareStatement<Item, Result>({
  keyOf,
  turnOf = keyOf,
  together,
  alone,
}: SharedStatement<Item, Result>): (item: Item) => Promise<Result> {
  /** Returns `null` when the statement failed. */
  const runTogether = async (items: readonly Item[]): Promise<ReadonlyMap<string, Result | Error> | null> => {
    try {
      return await together(items)
    } catch (error) {
      if (isConnectionFailure(error)) throw error
      return null
    }
  }
  /** Of each turn the item that is done alone. */
  const turns = new Map<string, Promise<unknown>>()
  const doAlone = ({ item }: Asked<Item>): Promise<Result> => {
    const turn = turnOf(item)
    const result = alone(item)
    const ended: Promise<unknown> = result
      .catch(() => undefined)
      .finally(() => {
        if (turns.get(turn) === ended) turns.delete(turn)
      })
    turns.set(turn, ended)
    return result
  }
  /** Does items of one turn alone, one after the other. Returns each with its result. */
  const doInOrder = (asked: readonly Asked<Item>[]): readonly (readonly [Asked<Item>, Promise<Result>])[] => {
    let before: Promise<unknown> = Promise.resolve()
    return asked.map((one) => {
      const result = before.then(() => doAlone(one))
      before = result.catch(() => undefined)
      return [one, result] as const
    })
  }
  /** Returns functions, so that those who are done alone are not waited for by the others. */
  const run = async (asked: readonly Asked<Item>[]): Promise<readonly (() => Result | Promise<Result>)[]> => {
    const [only] = asked
    if (only !== undefined && asked.length === 1) {
      const result = doAlone(only)
      await result.catch(() => undefined)
      return [() => result]
    }
    // Those that have waited longest, also for statements before this one.
    const oldestFirst = asked.toSorted((one, other) => one.order - other.order)
    const firstOf = firstBy(oldestFirst, ({ item }) => keyOf(item))
    const results = await runTogether([...firstOf.values()].map(({ item }) => item))
    const leftOut = [...firstOf.values()].filter(({ item }) => !results?.has(keyOf(item)))
    const turnsOf = [...Map.groupBy(leftOut, ({ item }) => turnOf(item)).values()]
    // After a failure all of them are done alone: whose fault it was is not known, and the next statement would fail too.
    const doneAlone = new Map(turnsOf.flatMap((ofTurn) => doInOrder(results === null ? ofTurn : ofTurn.slice(0, 1))))
    return asked.map((one) => {
      const own = doneAlone.get(one)
      if (own) return () => own
      const key = keyOf(one.item)
      if (firstOf.get(key) !== one || !results?.has(key)) return () => share(one)
      return () => {
        const result = results.get(key)
        if (result instanceof Error) throw result
        return result as Result
      }
    })
  }
  const load = batch(run, MAXIMUM_ROWS, { longestWaitMs: LONGEST_WAIT_MS })
  const share = async (one: Asked<Item>): Promise<Result> => {
    const turn = turns.get(turnOf(one.item))
    if (turn) await endOrTimeout(turn, LONGEST_TURN_MS)
    return await (await load(one))()
  }
  let order = 0
  return (item) => {
    order += 1
    return share({ item, order })
  }
}

/** Returns the first of each name, in their order. */
function firstBy<T>(all: readonly T[], nameOf: (one: T) => string): ReadonlyMap<string, T> {
  const firstOf = new Map<string, T>()
  for (const one of all) if (!firstOf.has(nameOf(one))) firstOf.set(nameOf(one), one)
  return firstOf
}
