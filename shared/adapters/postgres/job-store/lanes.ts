import { isConnectionFailure } from '../connection-failure.ts'

interface Waiting<Item, Result> {
  readonly item: Item
  readonly done: PromiseWithResolvers<Result>
}

/**
 * Does work for many in one go: while `run` works for some of a lane, whoever comes waits and is next, together with all others
 * who wait; nobody waits otherwise. `run` gives its results in the order of its items. When it fails for several, each is tried alone, so
 * that one which cannot be done fails by itself.
 */
export function createLanes<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  mostAtOnce: number,
): (lane: string, item: Item) => Promise<Result> {
  const lanes = new Map<string, Waiting<Item, Result>[]>()

  async function runFor(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await run(batch.map(({ item }) => item))
      if (results.length !== batch.length) throw new Error(`${results.length} results for ${batch.length} items`)
      for (const [index, result] of results.entries()) batch[index]?.done.resolve(result)
    } catch (error) {
      if (batch.length > 1 && !isConnectionFailure(error)) for (const waiting of batch) await runFor([waiting])
      else for (const { done } of batch) done.reject(error)
    }
  }

  async function empty(lane: string, waiting: Waiting<Item, Result>[]): Promise<void> {
    while (waiting.length > 0) await runFor(waiting.splice(0, mostAtOnce))
    lanes.delete(lane)
  }

  return (lane, item) => {
    const done = Promise.withResolvers<Result>()
    const waiting = lanes.get(lane)
    if (waiting) waiting.push({ item, done })
    else {
      const first = [{ item, done }]
      lanes.set(lane, first)
      void empty(lane, first)
    }
    return done.promise
  }
}
