import type { PublicationKind } from '#shared/operators/configuration.ts'
import { COMMON, FLAG, readArguments, readCommon, TEXT, UsageError } from '../command-line.ts'

const COMMANDS = ['show', 'draft', 'discard', 'validate', 'diff', 'publish', 'history', 'import'] as const

export type ConfigurationOptions = NonNullable<ReturnType<typeof readOptions>>

const OPTIONS = { ...COMMON, reason: TEXT, replace: FLAG, 'new-hosts': FLAG }

export function helpOf(kind: PublicationKind): string {
  const subject =
    kind === 'catalog' ? 'catalog: prices, limits, the default voice' : 'deployments: upstreams and models'
  return `Usage: npm run ${kind} -- <command> [options]

Shows and publishes the ${subject}. All processes apply a publication within two seconds.

  show [NUMBER]        print what is in force, or an earlier publication
  history              list the publications, newest first
  draft [FILE]         make FILE the shared draft; without FILE print the draft
  discard              delete the draft
  validate [FILE]      check FILE, or the draft
  diff [FILE]          say what FILE, or the draft, changes, and what it would have changed about the last 1,000 calls
  publish [FILE]       publish FILE, or the draft
  import FILE          publish FILE as the file that processes start with

  --reason <text>      why; required by publish and import
  --as <name>          who; by default the user of this machine
  --replace            draft: replace the draft of somebody else; publish: publish a draft that was begun before the
                       newest publication
  --new-hosts          publish, import: lets keys go to hosts that they did not go to before, which are listed
  --json               print one JSON object
  --help               show this text

Reads DATABASE_URL. Exit code: 0 when done, 1 when the content is not valid or somebody else was first, 2 for wrong
arguments or a database that cannot be reached.`
}

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
export function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine, OPTIONS)
  if (values.help) return null
  const [name, given, surplus] = positionals
  const command = COMMANDS.find((known) => known === name)
  if (!command) throw new UsageError(`the command must be one of ${COMMANDS.join(', ')}`)
  if (surplus !== undefined) throw new UsageError(`"${surplus}" is one argument too many`)
  if (command === 'import' && given === undefined) throw new UsageError('import needs a FILE')
  if (given !== undefined && (command === 'discard' || command === 'history'))
    throw new UsageError(`${command} takes no argument`)
  const needsReason = command === 'publish' || command === 'import'
  if (needsReason && !values.reason?.trim()) throw new UsageError(`${command} needs --reason, which the history shows`)
  if ((values.reason?.length ?? 0) > 1000) throw new UsageError('--reason may have 1000 characters')
  return {
    ...readCommon(values, environment),
    command,
    /** A file, or for `show` the number of a publication. */
    given,
    reason: values.reason?.trim(),
    replaces: values.replace ?? false,
    /** Whether keys may go where they did not go before. */
    confirmsDestinations: values['new-hosts'] ?? false,
  }
}
