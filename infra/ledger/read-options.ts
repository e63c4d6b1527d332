import { z } from 'zod'
import type { AuditHead } from '#shared/operators/audit-chain.ts'
import { rpcUrls } from '#shared/payment/chain-settings.ts'
import { exposureSettings } from '#shared/payment/exposure-settings.ts'
import { checkedFlags, checkedSettings, FLAG, readFlags, readSandbox, TEXT, UsageError } from '../command-line.ts'
import { INVOICE_UNITS } from './invoice.ts'

export const HELP = `Usage: npm run ledger -- [--from TIME] [--to TIME] [--json] [--no-chain] [--sandbox]
       npm run ledger -- --invoice FILE.csv [--vendor NAME] [--json] [--sandbox]

Prints revenue, charges by model, failures, absorbed cost, gas, uncharged work, exposure, debts, review items and their resolutions,
checks that the audit of operators' actions is as it was recorded, and reconciles the ledger with the chain to the atomic unit. A period contains what finished at or after --from and before --to.

  --from TIME      ISO 8601, or a day in UTC: its beginning (default: 24 hours before --to)
  --to TIME        the same (default: now)
  --json           print one JSON object; amounts are atomic USDC in decimal strings
  --no-chain       report the ledger only, without reconciliation
  --log-range N    blocks for each eth_getLogs (default: 2000)
  --audit-head P:H an end of the audit that was printed before: what was recorded until then must be the same
  --invoice FILE   compare a vendor's invoice with what its models did, by UTC day and model, in units and in money. A CSV file
                   with the columns day, model, unit, quantity and amount_usd; a model is an upstream model or else a
                   deployment, a unit one of ${INVOICE_UNITS}. Numbers count as exact to half of their last decimal.
                   Rename the columns of a vendor's export to these, with a line for each unit that it bills
  --vendor NAME    only what was done by this vendor (a deployment's vendor, or the host of its base_url): where two have models
                   of the same name
  --sandbox        use database and chain of the running sandbox, from SANDBOX_FILE or .farebox/sandbox.json
  --help           show this text

Environment: DATABASE_URL and, unless --no-chain, RPC_URL. PAY_TO, FACILITATOR_ADDRESSES and SETTLEMENT_CONTRACT
(comma-separated) add addresses to those in the ledger. UNCHARGED_WINDOW_SECONDS as for the API (default: 3600).

Exit code: 0 when ledger and chain agree and the audit is complete, or ledger and invoice, 1 on any difference, 2 on wrong usage or when the database or
the chain cannot be read.`

export type LedgerOptions = NonNullable<Awaited<ReturnType<typeof readOptions>>>

const addresses = z
  .string()
  .transform((list) => list.toLowerCase().split(','))
  .pipe(z.array(z.string().regex(/^0x[0-9a-f]{40}$/, { error: 'must be 0x and 40 hexadecimal digits' })))

/** A day means its beginning, as for the Ledger page and the CSV files. */
const time = z
  .union([z.iso.date(), z.iso.datetime({ offset: true })], {
    error: 'must be a day in UTC such as 2026-11-21, or an ISO 8601 time such as 2026-11-21T00:00:00Z',
  })
  .transform((text) => new Date(text).toISOString())

const OPTIONS = {
  from: TEXT,
  to: TEXT,
  json: FLAG,
  'no-chain': FLAG,
  'log-range': TEXT,
  'audit-head': TEXT,
  invoice: TEXT,
  vendor: TEXT,
  sandbox: FLAG,
  help: FLAG,
}

const optionsSchema = z.object({
  from: time.optional(),
  to: time.optional(),
  'log-range': z
    .string()
    .regex(/^[1-9]\d{0,6}$/, { error: 'must be a number of blocks from 1 to 9999999' })
    .default('2000'),
  'audit-head': z
    .string()
    .regex(/^\d{1,18}:[0-9a-f]{64}$/, { error: 'must be a position, a colon and 64 hexadecimal digits' })
    .transform((text): AuditHead => {
      const [position = '', hash = ''] = text.split(':')
      return { position: BigInt(position), hash }
    })
    .optional(),
  invoice: z.string().min(1, { error: 'must be a file' }).optional(),
  vendor: z.string().min(1, { error: 'must be a name' }).optional(),
})

const environmentSchema = z.object({
  DATABASE_URL: z.url({ error: 'is not set, or not a URL' }),
  RPC_URL: rpcUrls,
  PAY_TO: addresses.optional(),
  FACILITATOR_ADDRESSES: addresses.optional(),
  SETTLEMENT_CONTRACT: addresses.optional(),
  UNCHARGED_WINDOW_SECONDS: exposureSettings.UNCHARGED_WINDOW_SECONDS,
})

/** Reads arguments and environment. Returns `null` for `--help`. Throws `UsageError`. */
export async function readOptions(programArguments: readonly string[], environment: NodeJS.ProcessEnv) {
  const flags = readFlags(programArguments, OPTIONS)
  if (flags.help) return null
  const {
    from,
    to,
    'log-range': logRange,
    'audit-head': auditHead,
    invoice,
    vendor,
  } = checkedFlags(optionsSchema, flags)
  if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to))
    throw new UsageError('--from must be before --to')
  if (invoice !== undefined && (from !== undefined || to !== undefined))
    throw new UsageError('--invoice covers the days that are in the file: leave out --from and --to')
  if (vendor !== undefined && invoice === undefined) throw new UsageError('--vendor goes with --invoice')
  const sandboxSettings = flags.sandbox ? await readSandbox(environment) : {}
  const requiredSchema =
    flags['no-chain'] || invoice !== undefined ? environmentSchema.omit({ RPC_URL: true }) : environmentSchema
  const settings = checkedSettings(requiredSchema, { ...environment, ...sandboxSettings }) as Omit<
    z.infer<typeof environmentSchema>,
    'RPC_URL'
  > & {
    RPC_URL?: readonly string[]
  }
  return {
    from,
    to,
    asJson: flags.json ?? false,
    /** A file to compare instead of a report. */
    invoice,
    /** Whose invoice it is; all vendors by default. */
    vendor,
    databaseUrl: settings.DATABASE_URL,
    /** `null`: do not reconcile with the chain. */
    rpcUrls: settings.RPC_URL ?? null,
    logRange: BigInt(logRange),
    /** In addition to the addresses in the ledger; lower case. Keys and contracts are facilitators. */
    recipients: settings.PAY_TO ?? [],
    facilitators: [...(settings.FACILITATOR_ADDRESSES ?? []), ...(settings.SETTLEMENT_CONTRACT ?? [])],
    auditHead: auditHead ?? null,
  }
}
