import { type Command, Option } from 'commander'
import { z } from 'zod'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { checkedFlags, checkedSettings, type Settings, UsageError } from '../command-line.ts'

/** Adds description and options to the command. */
export function addOptions(command: Command): Command {
  return command
    .description(
      `Moves the documents of calls that are over to the object store, by the month in which they finished: bodies
of receipts, signed authorizations and transactions, terms, payment responses. Their rows stay in PostgreSQL,
and receipts are still found. Safe to stop at any time, to repeat, and to start twice.`,
    )
    .option(
      '--before <month>',
      'archive what finished before this month, such as 2026-08, UTC (default: the months that ended at least 90 days ago)',
    )
    .addOption(
      new Option('--dry-run', 'count calls and bytes by month, and change nothing').conflicts(['verify', 'show']),
    )
    .addOption(
      new Option('--verify', 'read every archived object and compare it with its digest').conflicts(['dryRun', 'show']),
    )
    .option('--show <id>', 'print the archived documents of a receipt or a job')
    .addHelpText(
      'after',
      `
Environment: DATABASE_URL, and OBJECT_STORE_DIRECTORY or S3_BUCKET, S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID,
S3_SECRET_ACCESS_KEY, S3_FORCE_PATH_STYLE, with the same values as for API and workers. DATABASE_URL must lead
to PostgreSQL itself, not to a pooler.

Exit code: 0 when done, 1 when nothing was done because another run is under way or processes of another version
run, when --verify finds damage, or when --show finds nothing; 2 on wrong usage, or when the database or the
object store cannot be used.`,
    )
}

/** Calls younger than this are read too often to be archived unasked. */
const DEFAULT_AGE_DAYS = 90
const DAY_MS = 24 * 3600 * 1000

export type ArchiveOptions = ReturnType<typeof readOptions>

const settingsSchema = z
  .object({ DATABASE_URL: z.url({ error: 'is not set, or not a URL' }), ...objectStoreSettings })
  .check(checkObjectStore)

const optionsSchema = z.object({
  before: z
    .string()
    .regex(/^20\d\d-(0[1-9]|1[0-2])$/, { error: 'must be a month such as 2026-08' })
    .optional(),
  dryRun: z.boolean().default(false),
  verify: z.boolean().default(false),
  show: z.uuid({ error: 'must be the id of a receipt or a job' }).optional(),
})

/** Reads options and settings. Throws `UsageError`. */
export function readOptions(given: unknown, settings: Settings) {
  const now = new Date()
  const flags = checkedFlags(optionsSchema, given)
  const { before, show } = flags
  const current = now.toISOString().slice(0, 'yyyy-mm'.length)
  if (before !== undefined && before > current)
    throw new UsageError(`--before must not be after the current month, ${current}`)
  const { DATABASE_URL: databaseUrl, ...store } = checkedSettings(settingsSchema, settings)
  return {
    task: taskOf(flags),
    /** The first month that is not archived, such as `2026-08`. */
    before: before ?? defaultBefore(now),
    /** Of `show`: a receipt or a job. */
    id: show ?? null,
    databaseUrl,
    store,
  }
}

function taskOf(flags: z.output<typeof optionsSchema>) {
  if (flags.dryRun) return 'count'
  if (flags.verify) return 'verify'
  return flags.show === undefined ? 'archive' : 'show'
}

function defaultBefore(now: Date): string {
  return new Date(now.getTime() - DEFAULT_AGE_DAYS * DAY_MS).toISOString().slice(0, 'yyyy-mm'.length)
}
