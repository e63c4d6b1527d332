import type { DoctorCheck } from '../../farebox.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { type CommandContext, namesWallet, type RegisterCommand } from '../run.ts'
import { counted } from '../transcribe/amounts.ts'
import { renderTable } from './text-table.ts'

/** Checks that fail because of the wallet's money. */
const FUNDS_CHECKS: ReadonlySet<string> = new Set(['wallet', 'balance', 'allowance'])
const BUDGET_CHECK = 'budget'

export const registerDoctor: RegisterCommand = (program, run) => {
  program
    .command('doctor')
    .summary('find out why a payment would fail')
    .description(
      'Checks what a payment needs, without paying or signing: service, terms, clock, node, funds, allowance, budget and journal. Exit code 4 if only the wallet’s money is missing, 3 if only the budget is used up, 1 for anything else.',
    )
    .option('--ffmpeg <path>', 'the ffmpeg to look for (default: that of the PATH)')
    .addHelpText(
      'after',
      examples([
        ['farebox doctor', 'check everything'],
        ['farebox doctor --json | jq "select(.ok == false)"', 'what is wrong, for programs'],
      ]),
    )
    .action(run(doctor))
}

async function doctor(context: CommandContext, { ffmpeg }: { readonly ffmpeg?: string }): Promise<ExitCode> {
  const { io, settings, output, signal } = context
  const farebox = await context.farebox({ needsWallet: false })
  const hasWallet = namesWallet(settings, io.environment)
  const [all, converter] = await Promise.all([farebox.doctor({ signal }), findConverter(ffmpeg)])
  const checks = hasWallet ? all : [...all.filter(({ name }) => !FUNDS_CHECKS.has(name)), await missingWallet()]
  const wrong = checks.filter(({ ok }) => !ok).map(({ name }) => name)
  if (output.json) for (const check of [...checks, converter]) output.event(check)
  else output.result({}, describeChecks(checks, converter, wrong.length))
  return hasWallet ? exitCodeFor(wrong) : EXIT.usage
}

/** Takes the place of the checks of the wallet's money where there is no wallet. */
async function missingWallet(): Promise<DoctorCheck> {
  const { NO_WALLET } = await import('../../wallet/wallet-from-environment.ts')
  return { name: 'wallet', ok: false, found: null, ...NO_WALLET }
}

/** Tells a missing ffmpeg apart from what payments need: recordings in MP3 do without it. */
async function findConverter(ffmpegPath: string | undefined): Promise<DoctorCheck> {
  const { findFfmpeg } = await import('../../audio/ffmpeg.ts')
  const found = await findFfmpeg(ffmpegPath)
  const text = found === undefined ? MISSING_FFMPEG : 'recordings of any format can be transcribed'
  return { name: 'ffmpeg', ok: true, found: text, problem: null, advice: null }
}

const MISSING_FFMPEG = 'not found: only MP3s of up to an hour can be transcribed; install ffmpeg for the others'

function describeChecks(checks: readonly DoctorCheck[], converter: DoctorCheck, problems: number): string {
  const rows = [...checks, converter].map(({ ok, name, found, problem, advice }) =>
    ok ? ['ok', name, found ?? ''] : ['FAILED', name, `${problem ?? ''} ${advice ?? ''}`],
  )
  const failed = `${counted(problems, 'check')} failed: a payment may fail.`
  const summary = problems === 0 ? 'A payment should succeed.' : failed
  return `${renderTable(null, rows)}\n\n${summary}`
}

/** The wallet’s money, or the budget, is the reason only if nothing else is. */
export function exitCodeFor(wrong: readonly string[]): ExitCode {
  if (wrong.length === 0) return EXIT.done
  if (wrong.every((name) => name === BUDGET_CHECK)) return EXIT.budget
  return wrong.every((name) => name === BUDGET_CHECK || FUNDS_CHECKS.has(name)) ? EXIT.funds : EXIT.failed
}
