import { z } from 'zod'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { checkedFlags, checkedSettings, FLAG, readFlags, TEXT, UsageError } from '../command-line.ts'

export const HELP = `Usage: npm run archive -- [--before MONTH] [--dry-run | --verify | --show ID]

Moves the documents of calls that are over to the object store, by the month in which they finished: bodies
of receipts, signed authorizations and transactions, terms, payment responses. Their rows stay in PostgreSQL,
and receipts are still found. Safe to stop at any time, to repeat, and to start twice.

  --before MONTH   archive what finished before this month, such as 2026-08, UTC (default: the months that
                   ended at least 90 days ago)
  --dry-run        count calls and bytes by month, and change nothing
  --verify         read every archived object and compare it with its digest
  --show ID        print the archived documents of a receipt or a job
  --help           show this text

Environment: DATABASE_URL, and OBJECT_STORE_DIRECTORY or S3_BUCKET, S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID,
S3_SECRET_ACCESS_KEY, S3_FORCE_PATH_STYLE, with the same values as for API and workers. DATABASE_URL must lead
to PostgreSQL itself, not to a pooler.

Exit code: 0 when done, 1 when nothing was done because another run is under way or processes of another version
run, when --verify finds damage, or when --show finds nothing; 2 on wrong usage, or when the database or the
object store cannot be used.`

/** Calls younger than this are read too often to be archived unasked. */
const DEFAULT_AGE_DAYS = 90
const DAY_MS = 24 * 3600 * 1000

export type ArchiveOptions = NonNullable<ReturnType<typeof readOptions>>

const settingsSchema = z
  .object({ DATABASE_URL: z.url({ error: 'is not set, or not a URL' }), ...objectStoreSettings })
  .check(checkObjectStore)

const OPTIONS = { before: TEXT, 'dry-run': FLAG, verify: FLAG, show: TEXT, help: FLAG }

const optionsSchema = z.object({
  before: z
    .string()
    .regex(/^20\d\d-(0[1-9]|1[0-2])$/, { error: 'must be a month such as 2026-08' })
    .optional(),
  show: z.uuid({ error: 'must be the id of a receipt or a job' }).optional(),
})

/** Reads arguments and environment. Returns `null` for `--help`. Throws `UsageError`. */
export function readOptions(programArguments: readonly string[], environment: NodeJS.ProcessEnv) {
  const now = new Date()
  const flags = readFlags(programArguments, OPTIONS)
  if (flags.help) return null
  const { before, show } = checkedFlags(optionsSchema, flags)
  const current = now.toISOString().slice(0, 'yyyy-mm'.length)
  if (before !== undefined && before > current)
    throw new UsageError(`--before must not be after the current month, ${current}`)
  if ([flags['dry-run'], flags.verify, show].filter(Boolean).length > 1)
    throw new UsageError('--dry-run, --verify and --show exclude each other')
  const { DATABASE_URL: databaseUrl, ...store } = checkedSettings(settingsSchema, environment)
  return {
    task: taskOf({ ...flags, show }),
    /** The first month that is not archived, such as `2026-08`. */
    before: before ?? defaultBefore(now),
    /** Of `show`: a receipt or a job. */
    id: show ?? null,
    databaseUrl,
    store,
  }
}

function taskOf(flags: { 'dry-run'?: boolean; verify?: boolean; show?: string | undefined }) {
  if (flags['dry-run']) return 'count'
  if (flags.verify) return 'verify'
  return flags.show === undefined ? 'archive' : 'show'
}

function defaultBefore(now: Date): string {
  return new Date(now.getTime() - DEFAULT_AGE_DAYS * DAY_MS).toISOString().slice(0, 'yyyy-mm'.length)
}
