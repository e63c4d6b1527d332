import { Argument, Option } from 'commander'
import { formatUsdc, parseUsdc } from '../../budget/usdc.ts'
import { homeDirectory } from '../../journal/home-directory.ts'
import { type LimitsChange, NO_LIMIT } from '../../mcp/limits/change-limits.ts'
import { examples } from '../examples.ts'
import { type ExitCode, UsageError } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { amountLike } from './calls/option-values.ts'

const ACTIONS = ['show', 'set', 'reset'] as const
type Action = (typeof ACTIONS)[number]

export const registerLimits: RegisterCommand = (program, run) => {
  program
    .command('limits')
    .summary('what agents may spend')
    .description(
      'Shows or changes what the tools of `farebox mcp` may spend. Changes hold at once, also for servers that run. Only this command changes them: no tool and no text that a model reads or writes does.',
    )
    .addArgument(new Argument('[action]', 'what to do').choices(ACTIONS).default('show'))
    .addOption(limitOption('--call <usdc>', 'most for one call'))
    .addOption(limitOption('--session <usdc>', 'most for one run of the server'))
    .addOption(limitOption('--day <usdc>', 'most in a UTC day, all runs and commands of this machine'))
    .addOption(new Option('--confirm-above <usdc>', 'ask the person before calls that may cost more').argParser(amount))
    .option('--tool <name>', 'set the limits of one tool; `none` removes one')
    .option('--yes', 'change without asking')
    .addHelpText(
      'after',
      examples([
        ['farebox limits', 'what holds'],
        ['farebox limits set --day 10', '10 USDC a day for all tools'],
        ['farebox limits set --confirm-above 0.2', 'ask only above 0.2 USDC'],
        ['farebox limits set --tool generate_image --day 1', 'images for 1 USDC a day'],
        ['farebox limits set --tool generate_image --day none', 'as all tools'],
        ['farebox limits reset', 'the limits that hold at first'],
      ]),
    )
    .action(run(limits))
}

async function limits(
  context: CommandContext,
  action: Action,
  options: LimitsChange & { readonly yes?: boolean },
): Promise<ExitCode | undefined> {
  const home = context.settings.home ?? homeDirectory(context.io.environment)
  const { yes, ...change } = options
  if (action !== 'set' && Object.keys(change).length > 0)
    throw new UsageError('Limits are changed with: farebox limits set')
  const { resetLimits, setLimits, showLimits } = await import('./limits/act-on-limits.ts')
  if (action === 'show') return showLimits(context, home)
  const isConfirmed = yes ?? false
  return action === 'reset'
    ? await resetLimits(context, home, isConfirmed)
    : await setLimits(context, home, change, isConfirmed)
}

const requireAmount = amountLike('5 or 0.15')
const amount = (text: string) => formatUsdc(parseUsdc(requireAmount(text)))

function limitOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text) => (text === NO_LIMIT ? text : amount(text)))
}
