import { z } from 'zod'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { isEndOfBlock } from '#shared/operators/configuration.ts'
import {
  addCommon,
  checkedArgument,
  checkedFlags,
  createMain,
  REASON,
  readCommon,
  reason,
  type Settings,
} from '../command-line.ts'

const DAY_MS = 86_400_000

const addressArgument = z
  .string()
  .toLowerCase()
  .regex(/^0x[0-9a-f]{40}$/, { error: 'must be 0x and 40 hexadecimal digits' })

/** The end of a day in UTC. */
const lastDay = z.iso
  .date()
  .transform((day) => new Date(Date.parse(day) + DAY_MS))
  .refine(isEndOfBlock)

const optionsSchema = z.object({
  reason,
  until: z
    .string()
    .refine((day) => lastDay.safeParse(day).success, {
      error: 'is the last day of a block, today or later, such as 2026-12-31',
    })
    .transform((day) => lastDay.parse(day))
    .optional(),
})

/** Runs the command and returns its exit code. */
export const main = createMain('payers', (command, run) => {
  addCommon(command)
    .description(
      `Says who may not pay. All APIs apply a change within two seconds; what they have accepted is served and charged.`,
    )
    .addHelpText('after', '\nReads DATABASE_URL.')
  command
    .command('list')
    .description('print the payers that are blocked, with who blocked them, when and why')
    .action(run(list))
  command
    .command('block <address>')
    .description('refuse new payments of an address (payer_blocked) before any work')
    .requiredOption(...REASON)
    .option('--until <day>', 'the last UTC day of a block, YYYY-MM-DD (default: no end)')
    .action(run((flags, settings, address) => control(flags, settings, { address, isBlocked: true })))
  command
    .command('unblock <address>')
    .description('accept them again')
    .requiredOption(...REASON)
    .action(run((flags, settings, address) => control(flags, settings, { address, isBlocked: false })))
  return command
})

async function control(
  flags: unknown,
  settings: Settings,
  { address, isBlocked }: { readonly address: string | undefined; readonly isBlocked: boolean },
): Promise<void> {
  const { databaseUrl: connectionString, author, asJson } = readCommon(flags, settings)
  const { until = null, reason } = checkedFlags(optionsSchema, flags)
  const change = { payer: checkedArgument(addressArgument, 'ADDRESS', address), isBlocked, until, reason }
  const connection = { connectionString, applicationName: 'farebox payers' }
  const { outcome, revision } = await withConnection(connection, (pool) =>
    createControlStore(pool).controlPayer(author, change),
  )
  const text = outcome === 'unchanged' ? 'Nothing to do: it is like this already.' : `Done, as revision ${revision}.`
  console.log(asJson ? JSON.stringify({ outcome, revision: revision.toString() }, null, 2) : text)
}

async function list(flags: unknown, settings: Settings): Promise<void> {
  const { databaseUrl: connectionString, asJson } = readCommon(flags, settings)
  const connection = { connectionString, applicationName: 'farebox payers' }
  const blocked = await withConnection(connection, (pool) => createControlStore(pool).readBlockedPayers())
  const lines = blocked.map(({ payer, until, operator, changedAt, reason }) =>
    [payer, `until ${until?.toISOString() ?? 'unblocked'}`, operator, changedAt.toISOString(), reason].join('  '),
  )
  console.log(asJson ? JSON.stringify(blocked, null, 2) : lines.join('\n') || 'No payer is blocked.')
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
