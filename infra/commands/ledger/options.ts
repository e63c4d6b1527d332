import { type Command, Option } from 'commander'
import { z } from 'zod'
import type { AuditHead } from '#shared/operators/audit-chain.ts'
import { rpcUrls } from '#shared/payment/chain-settings.ts'
import { checkedFlags, checkedSettings, readSandbox, type Settings, UsageError } from '../command-line.ts'
import { INVOICE_UNITS } from './invoice.ts'

/** Adds description and options to the command. */
export function addOptions(command: Command): Command {
  return command
    .description(
      `Prints revenue, charges by model, failures, absorbed cost, gas, uncharged work, exposure, debts, review items and
their resolutions, checks that the audit of operators' actions is as it was recorded, and reconciles the ledger with
the chain to the atomic unit. A period contains what finished at or after --from and before --to.`,
    )
    .option('--from <time>', 'ISO 8601, or a day in UTC: its beginning (default: 24 hours before --to)')
    .option('--to <time>', 'the same (default: now)')
    .option('--json', 'print one JSON object; amounts are atomic USDC in decimal strings')
    .option('--no-chain', 'report the ledger only, without reconciliation')
    .option('--log-range <number>', 'blocks for each eth_getLogs', '2000')
    .option(
      '--audit-head <position:hash>',
      'an end of the audit that was printed before: what was recorded until then must be the same',
    )
    .addOption(
      new Option(
        '--invoice <file.csv>',
        `compare a vendor's invoice with what its models did, by UTC day and model, in units and in money. A CSV file with the columns day, model, unit, quantity and amount_usd; a model is an upstream model or else a deployment, a unit one of ${INVOICE_UNITS}. Numbers count as exact to half of their last decimal. Rename the columns of a vendor's export to these, with a line for each unit that it bills`,
      ).conflicts(['from', 'to']),
    )
    .option(
      '--vendor <name>',
      "with --invoice: only what was done by this vendor (a deployment's vendor, or the host of its base_url), where two have models of the same name",
    )
    .option('--sandbox', 'use database and chain of the running sandbox, from SANDBOX_FILE or .farebox/sandbox.json')
    .addHelpText(
      'after',
      `
Environment: DATABASE_URL and, unless --no-chain, RPC_URL. PAY_TO, FACILITATOR_ADDRESSES and SETTLEMENT_CONTRACT
(comma-separated) add addresses to those in the ledger.

Exit code: 0 when ledger and chain agree and the audit is complete, or ledger and invoice, 1 on any difference, 2 on
wrong usage or when the database or the chain cannot be read.`,
    )
}

export type LedgerOptions = Awaited<ReturnType<typeof readOptions>>

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

const optionsSchema = z.object({
  from: time.optional(),
  to: time.optional(),
  json: z.boolean().default(false),
  chain: z.boolean(),
  sandbox: z.boolean().default(false),
  logRange: z.string().regex(/^[1-9]\d{0,6}$/, { error: 'must be a number of blocks from 1 to 9999999' }),
  auditHead: z
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
})

/** Reads options and settings. Throws `UsageError`. */
export async function readOptions(given: unknown, environment: Settings) {
  const { from, to, json, chain, logRange, auditHead, invoice, vendor, sandbox } = checkedFlags(optionsSchema, given)
  if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to))
    throw new UsageError('--from must be before --to')
  if (vendor !== undefined && invoice === undefined) throw new UsageError('--vendor goes with --invoice')
  const sandboxSettings = sandbox ? await readSandbox(environment) : {}
  const requiredSchema = !chain || invoice !== undefined ? environmentSchema.omit({ RPC_URL: true }) : environmentSchema
  const settings = checkedSettings(requiredSchema, { ...environment, ...sandboxSettings }) as Omit<
    z.infer<typeof environmentSchema>,
    'RPC_URL'
  > & {
    RPC_URL?: readonly string[]
  }
  return {
    from,
    to,
    asJson: json,
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
