import { Attempts } from './attempts.ts'
import type { Journal } from './journal.ts'

const WRITER = 'memory'

/** Creates a journal that ends with the process: budgets hold, but a killed call cannot be continued. */
export function createMemoryJournal(now: () => number = Date.now): Journal {
  const attempts = new Attempts()
  return {
    directory: null,
    attempts,
    append: (...entries) => {
      const at = new Date(now()).toISOString()
      for (const entry of entries) attempts.apply({ ...entry, at }, WRITER, true)
    },
    flush: () => Promise.resolve(),
    refresh: () => undefined,
    exclusively: async (work) => await work(),
    isWrittenElsewhere: () => false,
    close: () => Promise.resolve(),
  }
}
