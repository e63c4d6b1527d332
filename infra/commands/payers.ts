import { z } from 'zod'
import { createControlStore, type PayerChange } from '#shared/ledger/configuration/control-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { isEndOfBlock } from '#shared/operators/configuration.ts'
import { COMMON, createCommand, readArguments, readCommon, TEXT, UsageError } from '../command-line.ts'

const HELP = `Usage: npm run payers -- list | block ADDRESS | unblock ADDRESS [options]

Says who may not pay. All APIs apply a change within two seconds; what they have accepted is served and charged.

  list             print the payers that are blocked, with who blocked them, when and why
  block ADDRESS    refuse new payments of an address (payer_blocked) before any work
  unblock ADDRESS  accept them again

  --until <day>    the last UTC day of a block, YYYY-MM-DD (default: no end)
  --reason <text>  why; required, except by list
  --as <name>      who does it, in the audit (default: the user of this machine)
  --json           print JSON
  --help           show this text

Environment: DATABASE_URL.`

/** Its `change` is `null` to list. */
type Options = NonNullable<ReturnType<typeof readOptions>>

function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine, { ...COMMON, until: TEXT, reason: TEXT })
  if (values.help) return null
  const change = readChange(positionals, values.reason?.trim() ?? '', values.until)
  return { ...readCommon(values, environment), change }
}

function readChange(
  [command, address, ...others]: readonly string[],
  reason: string,
  day?: string,
): PayerChange | null {
  if (command === 'list' && address === undefined) return null
  if (command !== 'block' && command !== 'unblock') throw new UsageError('say list, block or unblock')
  if (others.length > 0) throw new UsageError(`"${others[0]}" is one argument too many`)
  const payer = address?.toLowerCase() ?? ''
  if (!/^0x[0-9a-f]{40}$/.test(payer)) throw new UsageError(`${command} needs an ADDRESS, 0x and 40 hexadecimal digits`)
  if (reason === '' || reason.length > 1000)
    throw new UsageError(`${command} needs --reason of at most 1000 characters, which is kept with the change`)
  const until = day === undefined ? null : new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000)
  const isDay = until === null || (z.iso.date().safeParse(day).success && isEndOfBlock(until))
  if (!isDay || (until !== null && command === 'unblock'))
    throw new UsageError('--until is the last day of a block, today or later, such as 2026-12-31')
  return { payer, isBlocked: command === 'block', until, reason }
}

async function run({ change, author, asJson, databaseUrl: connectionString }: Options): Promise<void> {
  await withConnection({ connectionString, applicationName: 'farebox payers' }, async (pool) => {
    const controls = createControlStore(pool)
    if (change) {
      const { outcome, revision } = await controls.controlPayer(author, change)
      const text =
        outcome === 'unchanged' ? 'Nothing to do: it is like this already.' : `Done, as revision ${revision}.`
      console.log(asJson ? JSON.stringify({ outcome, revision: revision.toString() }, null, 2) : text)
      return
    }
    const blocked = await controls.readBlockedPayers()
    const lines = blocked.map(({ payer, until, operator, changedAt, reason }) =>
      [payer, `until ${until?.toISOString() ?? 'unblocked'}`, operator, changedAt.toISOString(), reason ?? ''].join(
        '  ',
      ),
    )
    console.log(asJson ? JSON.stringify(blocked, null, 2) : lines.join('\n') || 'No payer is blocked.')
  })
}

/** Runs the command and returns its exit code. */
export const main = createCommand(HELP, readOptions, run)

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
