import { readFile } from 'node:fs/promises'
import { createTransferReader } from '#shared/chain/reading/transfer-reader.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { type PaymentParties, readPaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import { type LedgerPeriod, resolvePeriod } from '#shared/ledger/reports/period.ts'
import { readUpstreamModels, readVendorWork, type VendorWork } from '#shared/ledger/reports/vendor-work.ts'
import { LONGEST_SNAPSHOT_MS, withConnection } from '#shared/ledger/with-connection.ts'
import { createMain, oneLine, toJson, UsageError } from '../command-line.ts'
import { compareInvoice, daysOf, parseInvoice } from './invoice.ts'
import { addOptions, type LedgerOptions, readOptions } from './options.ts'
import { readReport } from './read-report.ts'
import { findBlocks, type Reconciliation, reconcile } from './reconcile.ts'
import { renderInvoice, renderReport } from './render-report.ts'

const [AGREED, DIFFERENT] = [0, 1]
const [DATABASE, CHAIN] = ['the database at DATABASE_URL', 'the chain at RPC_URL']

/** Runs the command and returns its exit code. */
export const main = createMain('ledger', (command, run) =>
  addOptions(command).action(
    run(async (flags, settings) => {
      const options = await readOptions(flags, settings)
      return await (options.invoice === undefined ? report(options) : checkInvoice(options, options.invoice))
    }),
  ),
)

async function checkInvoice(options: LedgerOptions, file: string): Promise<number> {
  const lines = parseInvoice(await readFile(file, 'utf8'))
  return await withConnection(connectionOf(options), async (pool) => {
    const work = ofVendor(await namingFailure(DATABASE, readVendorWork(pool, daysOf(lines))), options.vendor)
    const comparison = compareInvoice(lines, work, await namingFailure(DATABASE, readUpstreamModels(pool)))
    console.log(options.asJson ? toJson(comparison) : renderInvoice(comparison))
    return comparison.differences.length + comparison.unknownModels.length > 0 ? DIFFERENT : AGREED
  })
}

function ofVendor(work: readonly VendorWork[], name: string | undefined): readonly VendorWork[] {
  if (name === undefined) return work
  const vendors = [...new Set(work.map(({ vendor }) => vendor))]
  if (vendors.length > 0 && !vendors.includes(name))
    throw new UsageError(`nothing was done at ${name} on these days; vendors: ${oneLine(vendors.join(', '))}`)
  return work.filter(({ vendor }) => vendor === name)
}

async function report(options: LedgerOptions): Promise<number> {
  return await withConnection(connectionOf(options), async (pool) => {
    const chain = options.rpcUrls === null ? null : createTransferReader(options.rpcUrls)
    // Read before the ledger, so that every transfer up to this block already has its row.
    const head = chain && (await namingFailure(CHAIN, chain.readHead()))
    const period = await namingFailure(DATABASE, resolvePeriod(pool, options))
    const totals = await namingFailure(DATABASE, readReport(pool, period, options.auditHead))
    const reconciliation = chain && head !== null ? await reconcilePeriod({ pool, chain, head }, options, period) : null
    console.log(options.asJson ? toJson({ ...totals, reconciliation }) : renderReport(totals, reconciliation))
    return totals.audit.breaks.length + (reconciliation?.differences.length ?? 0) > 0 ? DIFFERENT : AGREED
  })
}

function connectionOf({ databaseUrl: connectionString }: LedgerOptions) {
  return { connectionString, applicationName: 'farebox ledger', statementTimeoutMs: LONGEST_SNAPSHOT_MS }
}

async function reconcilePeriod(
  { pool, chain, head }: { pool: Pool; chain: ReturnType<typeof createTransferReader>; head: bigint },
  options: LedgerOptions,
  period: LedgerPeriod,
): Promise<Reconciliation> {
  const parties = withAddressesOf(await namingFailure(DATABASE, readPaymentParties(pool)), options)
  const blocks = await namingFailure(CHAIN, findBlocks(chain, head, period, options.to === undefined))
  return await namingFailure(
    `${CHAIN}, or ${DATABASE}`,
    reconcile(
      { sql: pool, chain, onProgress: showProgress(options.logRange) },
      { period, parties, logRange: options.logRange },
      blocks,
    ),
  )
}

/** Adds the operator's addresses to those in the ledger. */
function withAddressesOf({ recipients, facilitators }: PaymentParties, options: LedgerOptions): PaymentParties {
  return {
    recipients: [...new Set([...recipients, ...options.recipients])],
    facilitators: [...new Set([...facilitators, ...options.facilitators])],
  }
}

/**
 * Names the dependency that failed. Keeps only the first line of its error: the rest may contain the node's address.
 */
async function namingFailure<T>(dependency: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    const [reason = ''] = (cause instanceof Error ? cause.message : String(cause)).split('\n')
    throw new Error(`${dependency} cannot be read: ${reason}`, { cause })
  }
}

/** A run of at most this many block ranges is too short to report progress. */
const SILENT_RANGES = 5n

function showProgress(logRange: bigint): (done: bigint, all: bigint) => void {
  return (done, all) => {
    if (all > SILENT_RANGES * logRange) console.error(`${done} of ${all} blocks read`)
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
