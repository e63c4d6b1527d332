import { type Command, Option } from 'commander'
import type { BudgetAmounts } from '../budget/limits.ts'
import { amountLike } from './commands/calls/option-values.ts'
import { UsageError } from './exit-codes.ts'

/** What every command may be told, by flag or environment; a flag wins. */
export interface Settings {
  readonly url: string | undefined
  /** Only of the flag: the library reads the environment. */
  readonly keyFile: string | undefined
  readonly rpcUrl: string | undefined
  readonly home: string | undefined
  readonly budget: BudgetAmounts
  readonly json: boolean
}

interface GlobalOptions {
  readonly url?: string
  readonly keyFile?: string
  readonly rpcUrl?: string
  readonly home?: string
  readonly budget?: string
  readonly callBudget?: string
  readonly dayBudget?: string
  readonly json?: boolean
}

/** Adds the options that every command takes, before or after its name. */
export function addGlobalOptions(program: Command): Command {
  return program
    .addOption(new Option('--url <url>', 'the service').env('FAREBOX_URL'))
    .option('--key-file <file>', 'file with the private key, mode 600 (env: FAREBOX_KEY_FILE; or FAREBOX_PRIVATE_KEY)')
    .addOption(new Option('--rpc-url <url>', 'node of the chain, for permits and checks').env('FAREBOX_RPC_URL'))
    .addOption(new Option('--home <folder>', 'journal, pins and receipts').env('FAREBOX_HOME'))
    .addOption(amountOption('--budget <usdc>', 'most to spend in this run').env('FAREBOX_BUDGET'))
    .addOption(
      amountOption('--call-budget <usdc>', 'most to spend on one call (1 by default)').env('FAREBOX_CALL_BUDGET'),
    )
    .addOption(amountOption('--day-budget <usdc>', 'most to spend in a UTC day, all runs').env('FAREBOX_DAY_BUDGET'))
    .option('--json', 'JSON on stdout, one object a line')
}

const amount = amountLike('5 or 0.15')

/** Returns an option whose value is a decimal amount of USDC. An empty variable is the same as none. */
function amountOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text: string) => (text === '' ? undefined : amount(text)))
}

/** Reads the settings of a command that was parsed. */
export function settingsOf(command: Command): Settings {
  const options: GlobalOptions = command.optsWithGlobals()
  const { budget: session, callBudget: call, dayBudget: day } = options
  return {
    url: options.url || undefined,
    keyFile: options.keyFile,
    rpcUrl: options.rpcUrl || undefined,
    home: options.home || undefined,
    budget: { ...(call && { call }), ...(session && { session }), ...(day && { day }) },
    json: options.json ?? false,
  }
}

/** Returns the service's URL. Throws `UsageError` when none is named. */
export function requireUrl({ url }: Settings): string {
  if (url !== undefined) return url
  throw new UsageError('No service is named. Set FAREBOX_URL, or add --url https://….')
}
