import type { BatchOutcome, StoppedBy } from '../../batch/types.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'

const BY_REASON: Readonly<Record<StoppedBy, ExitCode>> = {
  budget: EXIT.budget,
  funds: EXIT.funds,
  interrupt: EXIT.interrupted,
  service: EXIT.failed,
  local: EXIT.failed,
}

/** Returns the exit code of a batch: why it stopped comes before what failed. */
export function exitCodeOfOutcome({ interrupted, stoppedBy, failed }: BatchOutcome): ExitCode {
  if (interrupted) return EXIT.interrupted
  if (stoppedBy !== undefined) return BY_REASON[stoppedBy]
  return failed > 0 ? EXIT.failed : EXIT.done
}
