import type { Logger } from '#shared/runtime/logger.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** More callers than one API holds; what a waiting job keeps in memory is a few kilobytes. */
const MAXIMUM_WITHOUT_SLOT = 5000

/** The runs of a process's jobs, with or without a slot in their queue. */
export interface JobSlots {
  /**
   * Runs a job. Resolves once it needs no slot in its queue any more: it has ended, or it called `releaseSlot`, after
   * which it continues in the background.
   */
  run(work: (releaseSlot: () => void) => Promise<void>): Promise<void>
  /** Waits until every job has ended, at most `deadlineMs`. */
  drain(deadlineMs: number): Promise<void>
}

/** Creates the runs of a process. A job that would be one too many without a slot keeps its slot. */
export function createJobSlots(logger: Pick<Logger, 'error'>, maximum = MAXIMUM_WITHOUT_SLOT): JobSlots {
  let withoutSlot = 0
  let onIdle: (() => void) | null = null
  return {
    run: async (work) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      let hasSlot = true
      const releaseSlot = () => {
        if (!hasSlot || withoutSlot >= maximum) return
        hasSlot = false
        withoutSlot += 1
        resolve()
      }
      const runToEnd = async () => {
        try {
          await work(releaseSlot)
          resolve()
        } catch (error) {
          // With a slot, the queue reports the error.
          if (hasSlot) reject(error)
          else logger.error('a job without a slot failed; it is resumed when its lease has expired', { error })
        }
        if (hasSlot) return
        withoutSlot -= 1
        if (withoutSlot === 0) onIdle?.()
      }
      void runToEnd()
      await promise
    },
    drain: async (deadlineMs) => {
      if (withoutSlot === 0) return
      const idle = Promise.withResolvers<void>()
      onIdle = idle.resolve
      await withDeadline(Math.max(0, deadlineMs), idle.promise, () => undefined)
    },
  }
}
