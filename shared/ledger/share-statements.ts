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
  /**
   * Items that need the same lock probably fail together. Of those that the statement left out, one is done alone and the
   * others go with the next statements: one with the first of these, and twice as many with each one after that, as long as
   * none is left out. By default each key is a lock of its own.
   */
  readonly lockOf?: (item: Item) => string
  /**
   * Runs the statement for all items. Returns results, or errors of single items, by key; it must change nothing for an
   * item without one, or when it throws. Several items skip locked rows, so that they wait for nobody and two statements
   * cannot block each other; one that is left out is run again alone, and waits.
   */
  readonly run: (items: readonly Item[], lockedRows: LockedRows) => Promise<ReadonlyMap<string, Result | Error>>
  /** Returns the result of an item that is left out although it was alone and waited. It is an error by default. */
  readonly skipped?: (item: Item) => Result | Promise<Result>
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

/**
 * Creates a function that runs a statement for all who wait for it at the same time, and for a single one alone. An item
 * that the shared statement did not do, or that failed with it, is done alone, where it waits and fails for itself: no
 * item fails with another one's error, except that the server cannot be reached.
 */
export function shareStatement<Item, Result>({
  keyOf,
  lockOf = keyOf,
  run: runStatement,
  skipped,
}: SharedStatement<Item, Result>): (item: Item) => Promise<Result> {
  const chooser = createChooser(keyOf, lockOf)
  const alone = async (item: Item): Promise<Result> => {
    const results = await runStatement([item], 'wait')
    if (results.has(keyOf(item))) return resultIn(results, keyOf(item))
    if (!skipped) throw new Error('a statement left out its only item')
    return await skipped(item)
  }
  const runTogether = async (items: readonly Item[]): Promise<ReadonlyMap<string, Result | Error>> => {
    try {
      return await runStatement(items, 'skip')
    } catch (error) {
      if (!isConnectionFailure(error)) return new Map()
      chooser.forgetAll()
      throw error
    }
  }
  /** Returns functions, so that those who are done alone are not waited for by the others. */
  const run = async (asked: readonly Asked<Item>[]): Promise<readonly (() => Result | Promise<Result>)[]> => {
    const [only] = asked
    if (only !== undefined && asked.length === 1) {
      chooser.forget(only)
      const result = alone(only.item)
      await result.catch(() => undefined)
      return [() => result]
    }
    const chosen = chooser.choose(asked)
    const results = await runTogether(chosen.map(({ item }) => item))
    const aloneNext = chooser.learn(asked, chosen, (key) => results.has(key))
    return asked.map((one) => {
      if (aloneNext.has(one)) return () => alone(one.item)
      const key = keyOf(one.item)
      if (!chosen.includes(one) || !results.has(key)) return () => share(one)
      return () => resultIn(results, key)
    })
  }
  const load = batch(run, MAXIMUM_ROWS, { longestWaitMs: LONGEST_WAIT_MS })
  const share = async (one: Asked<Item>): Promise<Result> => (await load(one))()
  let order = 0
  return (item) => {
    order += 1
    return share({ item, order })
  }
}

/** Returns the result of a key that has one; throws the error of an item that failed. */
function resultIn<Result>(results: ReadonlyMap<string, Result | Error>, key: string): Result {
  const result = results.get(key)
  if (result instanceof Error) throw result
  return result as Result
}

/** Chooses the items of a statement, and learns which locks are left out. */
function createChooser<Item>(keyOf: (item: Item) => string, lockOf: (item: Item) => string) {
  /** How many items of a lock go into its next statement; all without an entry. Only of locks with items that wait. */
  const widths = new Map<string, number>()

  /** Returns those that have waited longest, also for statements before this one. */
  function choose(asked: readonly Asked<Item>[]): readonly Asked<Item>[] {
    const keys = new Set<string>()
    const counts = new Map<string, number>()
    const oldestFirst = asked.toSorted((one, other) => one.order - other.order)
    return oldestFirst.filter(({ item }) => {
      const [key, lock] = [keyOf(item), lockOf(item)]
      const count = counts.get(lock) ?? 0
      if (keys.has(key) || count >= (widths.get(lock) ?? MAXIMUM_ROWS)) return false
      keys.add(key)
      counts.set(lock, count + 1)
      return true
    })
  }

  /** Returns the items to be done alone: of each lock the first that was left out. */
  function learn(
    asked: readonly Asked<Item>[],
    chosen: readonly Asked<Item>[],
    isDone: (key: string) => boolean,
  ): ReadonlySet<Asked<Item>> {
    const done = new Set(chosen.filter(({ item }) => isDone(keyOf(item))))
    const skipped = Map.groupBy(
      chosen.filter((one) => !done.has(one)),
      ({ item }) => lockOf(item),
    )
    const aloneNext = new Set([...skipped.values()].flatMap(([first]) => first ?? []))
    const waiting = new Set(
      asked.filter((one) => !done.has(one) && !aloneNext.has(one)).map(({ item }) => lockOf(item)),
    )
    for (const lock of new Set(asked.map(({ item }) => lockOf(item)))) {
      const width = widths.get(lock)
      if (!waiting.has(lock)) widths.delete(lock)
      else if (skipped.has(lock)) widths.set(lock, 1)
      else if (width !== undefined) widths.set(lock, 2 * width)
    }
    return aloneNext
  }

  return {
    choose,
    learn,
    /** Nobody of its lock waits any more. */
    forget: ({ item }: Asked<Item>) => void widths.delete(lockOf(item)),
    forgetAll: () => widths.clear(),
  }
}
