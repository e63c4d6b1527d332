import DataLoader from 'dataloader'

/**
 * Creates a function that batches concurrent calls: items that arrive while `run` is in progress are passed together to
 * the next `run`; a single item is not delayed. `run` returns a result or an error for each item, in their order; if it
 * throws, every call of the batch rejects with that error.
 */
export function batch<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>,
  maximumBatch: number,
): (item: Item) => Promise<Result> {
  let inProgress: Promise<unknown> = Promise.resolve()
  const loader = new DataLoader<Item, Result>(
    (items) => {
      const running = run(items)
      inProgress = running.catch(() => undefined)
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
