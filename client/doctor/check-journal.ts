import { randomUUID } from 'node:crypto'
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import { unwritable } from '../journal/appended-file.ts'
import type { Attempt } from '../journal/attempt.ts'
import { type DoctorCheck, fine, wrong } from './doctor-check.ts'

type JournalContext = Pick<FareboxContext, 'journal' | 'payer' | 'budget'>

/** What others than the owner may do. */
const OF_OTHERS = 0o077

/** Checks that the journal can be written, and that nobody else can read it. */
export function checkJournal({ journal }: JournalContext): DoctorCheck {
  const name = 'journal'
  const { directory } = journal
  if (directory === null) return fine(name, 'kept in memory: a call of a killed process is not continued')
  const probe = join(directory, 'journal', `.probe-${randomUUID()}`)
  try {
    writeFileSync(probe, 'x', { mode: 0o600, flush: true })
  } catch (error) {
    throw unwritable(directory, error)
  } finally {
    rmSync(probe, { force: true })
  }
  const open = openToOthers(directory)
  if (open.length === 0) return fine(name, directory)
  return wrong(name, `Other users may read ${open[0]}.`, `Run: chmod -R go= ${directory}`)
}

/** Windows has no such modes. */
function openToOthers(directory: string): readonly string[] {
  if (process.platform === 'win32') return []
  const journal = join(directory, 'journal')
  const paths = [journal, ...readdirSync(journal).map((file) => join(journal, file))]
  return paths.filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & OF_OTHERS) !== 0)
}

/** Looks for calls whose payment may still be charged although no process waits for it. */
export function checkOpenCalls({ journal, payer }: JournalContext): DoctorCheck {
  const name = 'open calls'
  journal.refresh()
  const left: Attempt[] = []
  for (const attempt of journal.attempts.all())
    if (attempt.payer === payer && attempt.open?.isSigned === true && !journal.isWrittenElsewhere(attempt.writer))
      left.push(attempt)
  if (left.length === 0) return fine(name, 'none')
  const sum = left.reduce((total, { open }) => total + (open?.maximum ?? 0n), 0n)
  const calls = left.length === 1 ? '1 call was' : `${left.length} calls were`
  return wrong(
    name,
    `${calls} signed without a known outcome; ${formatUsdc(sum)} USDC count as spent until it is.`,
    'Repeat what was interrupted, such as the same transcribe command: its calls keep their keys and are charged once.',
  )
}

/** Looks whether the budget of the day is used up. */
export function checkBudget({ budget }: JournalContext): DoctorCheck {
  const name = 'budget'
  const { session, day } = budget.left()
  const left = [session, day].filter((each) => each !== null).sort((a, b) => (a < b ? -1 : 1))[0]
  if (left === undefined) return fine(name, 'none is set')
  if (left > 0n) return fine(name, `${formatUsdc(left)} USDC left`)
  return wrong(name, 'The budget is used up.', 'Raise it, or continue after midnight UTC.')
}
