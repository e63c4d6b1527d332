import { FareboxError } from '../../wire/farebox-error.ts'
import type { RunContext } from './run-context.ts'
import { stopReasonOf } from './stop-reason.ts'

/** Stops the run after an error that every other file would meet, before the place at the gate is free for one. */
export function stopIfHopeless({ stop }: Pick<RunContext, 'stop'>, error: unknown): void {
  if (!(error instanceof FareboxError)) return
  const reason = stopReasonOf(error)
  if (reason !== undefined) stop(reason, error)
}
