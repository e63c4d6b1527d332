import DataLoader from 'dataloader'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

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
      inProgress = longestWaitMs === undefined ? settled : withDeadline(longestWaitMs, settled, () => undefined)
      return running
    },
    {
      cache: false,
      maxBatchSize: maximumBatch,
      // After everything that arrived in the same tick of the event loop has been read.
      batchScheduleFn: (runNext) => void inProgress.then(() => setImmediate(runNext)),
    },
  )
  return (item) => loader.load(item)
}

/** What a statement does with a row that another transaction has locked. */
export type LockedRows = 'skip' | 'wait'

/** A statement for one or more items. */
export interface SharedStatement<Item, Result> {
  /** Two items with one key are never in one statement: the second one goes with the next. */
  readonly keyOf: (item: Item) => string
  /** Items that need the same lock are left out together, and then wait for it together. By default each key is one. */
  readonly lockOf?: (item: Item) => string
  /**
   * Runs the statement for all items. Returns results, or errors of single items, by key; it must change nothing for an
   * item without one, or when it throws. With `skip` it waits for nobody, so that two statements cannot block each other.
   * With `wait` the items are of one lock.
   */
  readonly run: (items: readonly Item[], lockedRows: LockedRows) => Promise<ReadonlyMap<string, Result | Error>>
  /** Returns the result of an item that is left out although it was alone and waited. It is an error by default. */
  readonly skipped?: (item: Item) => Result | Promise<Result>
}

/** Rows of one statement at most: a few milliseconds of work. */
const MAXIMUM_ROWS = 64
/** Longer than a statement takes on a busy server. */
export const LONGEST_WAIT_MS = 50

/**
 * Creates a function that runs a statement for all who wait for it at the same time, and for a single one alone. Those that
 * the shared statement left out wait for their lock in one statement. An item that is left out again, or that failed with
 * the others, is done alone, where it waits and fails for itself: no item fails with another one's error, except that the
 * server cannot be reached or does not answer in time.
 */
export function shareStatement<Item, Result>({
  keyOf,
  lockOf = keyOf,
  run: runStatement,
  skipped,
}: SharedStatement<Item, Result>): (item: Item) => Promise<Result> {
  type Results = ReadonlyMap<string, Result | Error>
  const alone = async (item: Item): Promise<Result> => {
    const results = await runStatement([item], 'wait')
    if (results.has(keyOf(item))) return resultIn(results, keyOf(item))
    if (!skipped) throw new Error('a statement left out its only item')
    return await skipped(item)
  }
  const together = async (items: readonly Item[], lockedRows: LockedRows): Promise<Results> => {
    try {
      return await runStatement(items, lockedRows)
    } catch (error) {
      if (isConnectionFailure(error)) throw error
      return new Map()
    }
  }
  /** Waits for one lock with all that need it. */
  const afterWaiting = (items: readonly Item[]): readonly (readonly [Item, () => Promise<Result>])[] => {
    const waiting = items.length === 1 ? Promise.resolve<Results>(new Map()) : together(items, 'wait')
    return items.map((item) => {
      const result = async () => {
        const results = await waiting
        return results.has(keyOf(item)) ? resultIn(results, keyOf(item)) : await alone(item)
      }
      return [item, result] as const
    })
  }
  /** Returns functions, so that nobody waits for those that wait for a lock. */
  const run = async (items: readonly Item[]): Promise<readonly (() => Result | Promise<Result>)[]> => {
    const [only] = items
    if (only !== undefined && items.length === 1) {
      const result = alone(only)
      await result.catch(() => undefined)
      return [() => result]
    }
    const keys = items.map(keyOf)
    const isFirst = (_: Item, index: number) => keys.indexOf(keys[index] ?? '') === index
    const chosen = items.filter(isFirst)
    const results = await together(chosen, 'skip')
    const skippedByLock = Map.groupBy(
      chosen.filter((item) => !results.has(keyOf(item))),
      lockOf,
    )
    const waiting = new Map([...skippedByLock.values()].flatMap(afterWaiting))
    return items.map((item, index) => {
      if (!isFirst(item, index)) return () => share(item)
      return waiting.get(item) ?? (() => resultIn(results, keyOf(item)))
    })
  }
  const load = batch(run, MAXIMUM_ROWS, { longestWaitMs: LONGEST_WAIT_MS })
  const share = async (item: Item): Promise<Result> => (await load(item))()
  return share
}

/** Returns the result of a key that has one; throws the error of an item that failed. */
function resultIn<Result>(results: ReadonlyMap<string, Result | Error>, key: string): Result {
  const result = results.get(key)
  if (result instanceof Error) throw result
  return result as Result
}
