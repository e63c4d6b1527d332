import { bindTo } from '#shared/runtime/bind-to.ts'
import { acceptInTurn, type PermitTurns } from './accept/permit-turns.ts'
import { type AcceptanceContext, type ServingJob, servePayment } from './accept/serve-payment.ts'
import type { OutcomeAwaiter } from './answer/await-outcome.ts'
import { type AnswerContext, respond } from './answer/respond.ts'

/** Finds, accepts, awaits and answers the jobs that payments are for. */
export type Jobs = ReturnType<typeof createJobs>

export interface JobContext extends AcceptanceContext, AnswerContext {
  readonly permitTurns: PermitTurns
  readonly outcomes: OutcomeAwaiter
}

export function createJobs(context: JobContext) {
  return bindTo(context, { acceptInTurn, servePayment, awaitOutcome, respond })
}

/** Waits for the outcome of a job as `OutcomeAwaiter.wait` does. */
function awaitOutcome({ outcomes }: JobContext, job: ServingJob, stopWaiting: AbortSignal) {
  return outcomes.wait(job.jobId, stopWaiting, job)
}
