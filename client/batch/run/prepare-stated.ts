import { formatUsdc } from '../../budget/usdc.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import { durationOf } from '../plan/planned-file.ts'
import type { FileJob, StatedJob } from '../plan/work.ts'
import type { PlannedFile } from '../types.ts'
import type { RunContext } from './run-context.ts'

/** Prepares a recording that was priced by what its file states. Throws if it would cost more than was agreed to. */
export async function prepareStated({ preparer, pricer, onEvent }: RunContext, job: StatedJob): Promise<FileJob> {
  const { occurrence, file: planned, recording: stated } = job
  const recording = await preparer.prepareStated(stated)
  const { uploads, price, alreadyPaid } = pricer.price(recording.uploads, occurrence)
  if (price - alreadyPaid > planned.price) throw costsMore(planned, price - alreadyPaid)
  const { warnings } = recording
  const known = { durationMs: durationOf(recording), parts: uploads.length, warnings }
  const targets = job.targets.map((target): PlannedFile => {
    const { isEstimate: _, ...rest } = target
    return { ...rest, ...known, ...(target === planned && { price, alreadyPaid }) }
  })
  const [file] = targets
  if (file === undefined) throw new RangeError('a recording is prepared for the files that it is written for')
  for (const warning of warnings.filter((text) => !stated.warnings.includes(text)))
    onEvent({ event: 'warning', file, code: 'incomplete_recording', text: `${file.label}: ${warning}` })
  return { kind: 'file', file, recording, occurrence, targets, uploads }
}

function costsMore({ label, price }: PlannedFile, exact: bigint): FareboxError {
  return new FareboxError({
    code: 'price_above_estimate',
    problem: `${label} is longer than its file states: it costs ${formatUsdc(exact)} USDC, and at most ${formatUsdc(price)} USDC was agreed to.`,
    money: 'none',
    advice: 'Run the command again: it shows the exact price.',
  })
}
