import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'

/**
 * Runs `run` for all items together; if that fails, for each half, down to single items, so that only those fail that
 * cannot be written and the others stay together.
 */
export function togetherOrInHalves<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>,
): (items: readonly Item[]) => Promise<readonly (Result | Error)[]> {
  const runEach = async (items: readonly Item[]): Promise<readonly (Result | Error)[]> => {
    try {
      return await run(items)
    } catch (error) {
      if (isConnectionFailure(error)) throw error
      if (items.length === 1) return [error instanceof Error ? error : new Error(String(error))]
    }
    const middle = Math.ceil(items.length / 2)
    return [...(await runEach(items.slice(0, middle))), ...(await runEach(items.slice(middle)))]
  }
  return runEach
}
