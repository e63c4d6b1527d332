import type { LeasedJob } from '#shared/jobs/job.ts'
import type { ExtendableMemory } from '../executions/execution.ts'
import type { JobDependencies } from './dependencies.ts'
import type { StepOutcome } from './step-outcome.ts'

/** The memory of one job, with the bytes that were reserved at first. */
export interface ReservedMemory extends ExtendableMemory {
  readonly bytes: number
}

/** The outcome of work that gave up because it needs more memory, without anything that must not be done again. */
export interface Short {
  readonly next: 'short'
  readonly neededBytes: number
}

/** Delay before a job that waited for memory in vain tries again. */
const MEMORY_RETRY_MS = 2000

/**
 * Reserves what a job will hold, then does its work. Work that turns out to need more starts again with all of it:
 * a job that kept its memory while it waits for more could wait for a job that does the same.
 */
export async function withMemory(
  { memory, executionOf }: JobDependencies,
  job: LeasedJob,
  signal: AbortSignal,
  work: (reserved: ReservedMemory) => Promise<StepOutcome | Short>,
): Promise<StepOutcome> {
  let bytes = firstBytes(executionOf, job)
  for (;;) {
    const reservation = await memory.reserve(bytes, signal)
    if (!reservation) {
      const reason = 'no memory for the job became free on this worker'
      return { next: 'later', delayMs: MEMORY_RETRY_MS, reason, ending: 'fail' }
    }
    try {
      const outcome = await work({ bytes, extendTo: reservation.extendTo, shrinkTo: reservation.shrinkTo })
      if (outcome.next !== 'short') return outcome
      bytes = outcome.neededBytes
    } finally {
      reservation.release()
    }
  }
}

function firstBytes(executionOf: JobDependencies['executionOf'], job: LeasedJob): number {
  try {
    return executionOf(job.operation).heldBytes(job)
  } catch {
    // The request cannot be read, so the job fails when it is prepared.
    return 0
  }
}
