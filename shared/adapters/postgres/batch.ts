import DataLoader from 'dataloader'

/**
 * Does for many callers in one go what each asks for: who comes while `run` is under way is served by the next run, together with
 * all others who came meanwhile; who comes alone waits for nobody. `run` gives a result or an error for each, in their order;
 * what it throws is everybody's.
 */
export function batch<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>,
  mostAtOnce: number,
): (item: Item) => Promise<Result> {
  let underWay: Promise<unknown> = Promise.resolve()
  const loader = new DataLoader<Item, Result>(
    (items) => {
      const running = run(items)
      underWay = running.catch(() => undefined)
      return running
    },
    {
      cache: false,
      maxBatchSize: mostAtOnce,
      // Not before everything has been read that arrived together.
      batchScheduleFn: (runNext) => void underWay.then(() => setImmediate(runNext)),
    },
  )
  return (item) => loader.load(item)
}
