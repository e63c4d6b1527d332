import type { Logger } from '#shared/runtime/logger.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** More callers than one API holds; what a waiting job keeps in memory is a few kilobytes. */
const MAXIMUM_WITHOUT_PLACE = 5000

/** The runs of a process's jobs, with or without a place in their queue. */
export interface JobPlaces {
  /**
   * Runs a job. Resolves once it needs no place in its queue any more: it has ended, or it called `releasePlace`, after
   * which it continues in the background.
   */
  run(work: (releasePlace: () => void) => Promise<void>): Promise<void>
  /** Waits until every job has ended, at most `deadlineMs`. */
  drain(deadlineMs: number): Promise<void>
}

/** Creates the runs of a process. A job that would be one too many without a place keeps its place. */
export function createJobPlaces(logger: Pick<Logger, 'error'>, maximum = MAXIMUM_WITHOUT_PLACE): JobPlaces {
  let withoutPlace = 0
  let onIdle: (() => void) | null = null
  return {
    run: async (work) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      let hasPlace = true
      const releasePlace = () => {
        if (!hasPlace || withoutPlace >= maximum) return
        hasPlace = false
        withoutPlace += 1
        resolve()
      }
      const runToEnd = async () => {
        try {
          await work(releasePlace)
          resolve()
        } catch (error) {
          // With a place, the queue reports the error.
          if (hasPlace) reject(error)
          else logger.error('a job without a place failed; it is resumed when its lease has expired', { error })
        }
        if (hasPlace) return
        withoutPlace -= 1
        if (withoutPlace === 0) onIdle?.()
      }
      void runToEnd()
      await promise
    },
    drain: async (deadlineMs) => {
      if (withoutPlace === 0) return
      const idle = Promise.withResolvers<void>()
      onIdle = idle.resolve
      await withDeadline(Math.max(0, deadlineMs), idle.promise, () => undefined)
    },
  }
}
