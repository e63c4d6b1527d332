import { UPTO_PROXY_ADDRESS } from '#shared/chain/network/contracts.ts'
import type {
  BlockRange,
  ChainTransfer,
  MinedTransaction,
  TransferReader,
} from '#shared/chain/reading/transfer-reader.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { readContradictions } from '#shared/ledger/reports/contradictions.ts'
import {
  type LedgerSettlement,
  readSettlementsByTransaction,
  readSettlementsInBlocks,
  readSettlementsOutsideBlocks,
} from '#shared/ledger/reports/ledger-settlements.ts'
import type { PaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import type { LedgerPeriod } from '#shared/ledger/reports/period.ts'
import type { CountAndSum } from '#shared/ledger/reports/revenue.ts'
import {
  compareSettlement,
  type Difference,
  isSettledByUs,
  settlementKey,
  transferKey,
  transfersOfSettlement,
} from './compare-settlement.ts'
import { findForeignTransactions } from './compare-transactions.ts'
import { LEAST_ID } from './least-id.ts'

/** The period's settlements according to ledger and chain. Sums are atomic USDC. */
interface Findings {
  /** The period's confirmed settlements. */
  ledger: CountAndSum
  /** The transfers found for them. */
  chain: CountAndSum
  /** Transfers in these blocks whose settlement is signed and not yet confirmed in the ledger. */
  settling: CountAndSum
  /** Transfers in these blocks whose settlement was confirmed before or after the period. */
  otherPeriods: CountAndSum
  /** USDC that arrived at our recipients by other means. */
  otherTransfers: CountAndSum
  readonly differences: Difference[]
}

export interface Reconciliation extends Readonly<Findings> {
  readonly blocks: BlockRange
}

interface ReconciliationDependencies {
  readonly sql: Sql
  readonly chain: TransferReader
  /** Called after each range of blocks. */
  readonly onProgress?: (done: bigint, all: bigint) => void
}

interface Subject {
  readonly period: LedgerPeriod
  readonly parties: PaymentParties
  /** Blocks for each `eth_getLogs`. */
  readonly logRange: bigint
}

/** Transactions that are looked up concurrently. */
const LOOKUP_SIZE = 200

type SumName = Exclude<keyof Findings, 'differences'>

const NOTHING: CountAndSum = { count: 0, totalAtomic: 0n }

function add(findings: Findings, sum: SumName, valueAtomic: bigint): void {
  const { count, totalAtomic } = findings[sum]
  findings[sum] = { count: count + 1, totalAtomic: totalAtomic + valueAtomic }
}

/**
 * Compares the period's settlements with the chain, transfer by transfer, with one range of blocks in memory at a time.
 * `blocks` must be determined before the ledger is read: every settlement is stored before it is sent, so the ledger
 * then contains every transfer in these blocks.
 */
export async function reconcile(
  dependencies: ReconciliationDependencies,
  subject: Subject,
  blocks: BlockRange,
): Promise<Reconciliation> {
  const findings: Findings = {
    ledger: NOTHING,
    chain: NOTHING,
    settling: NOTHING,
    otherPeriods: NOTHING,
    otherTransfers: NOTHING,
    differences: [
      ...(await readContradictionsAsDifferences(dependencies.sql, subject.period)),
      ...(await findForeignTransactions(dependencies, subject.period)),
    ],
  }
  for (const range of rangesOf(blocks, subject.logRange)) {
    await reconcileRange(dependencies, subject, range, findings)
    dependencies.onProgress?.(range.last - blocks.first + 1n, blocks.last - blocks.first + 1n)
  }
  await reconcileOtherBlocks(dependencies, subject, blocks, findings)
  const { ledger, chain, differences } = findings
  if (ledger.totalAtomic !== chain.totalAtomic || ledger.count !== chain.count)
    differences.push({
      kind: 'sums_differ',
      jobId: null,
      transaction: null,
      detail: `ledger ${ledger.totalAtomic} in ${ledger.count}, chain ${chain.totalAtomic} in ${chain.count}`,
    })
  return { blocks, ...findings }
}

/** Finds the blocks whose time is in the period; up to the head when the period extends to now. */
export async function findBlocks(
  chain: TransferReader,
  head: bigint,
  period: LedgerPeriod,
  isUntilNow: boolean,
): Promise<BlockRange> {
  const first = await chain.findFirstBlock(new Date(period.from), head)
  return { first, last: isUntilNow ? head : (await chain.findFirstBlock(new Date(period.to), head)) - 1n }
}

function* rangesOf({ first, last }: BlockRange, size: bigint): Generator<BlockRange> {
  for (let start = first; start <= last; start += size) {
    const end = start + size - 1n
    yield { first: start, last: end < last ? end : last }
  }
}

async function reconcileRange(
  { sql, chain }: ReconciliationDependencies,
  { period, parties }: Subject,
  range: BlockRange,
  findings: Findings,
): Promise<void> {
  const transfers = Map.groupBy(await chain.readTransfers(parties, range), transferKey)
  const settlements = await readSettlementsInBlocks(sql, period, range)
  const unmatched: LedgerSettlement[] = []
  for (const settlement of settlements) {
    const key = settlementKey(settlement)
    const own = transfers.get(key)
    transfers.delete(key)
    if (!settlement.isInPeriod) for (const { valueAtomic } of own ?? []) add(findings, 'otherPeriods', valueAtomic)
    else if (own) compare(settlement, own, findings)
    else unmatched.push(settlement)
  }
  // Compared by its transaction, one that has another payer in the ledger than on chain is found.
  const left = [...transfers.values()].flat()
  for (const settlement of unmatched.filter(({ isBatched }) => isBatched))
    for (const moved of left)
      if (moved.transaction === settlement.transaction && moved.payment?.nonce === settlement.nonce)
        transfers.delete(transferKey(moved))
  await compareByTransaction(chain, unmatched, findings)
  await classifyTransfers({ sql, chain }, { period, parties }, transfers, findings)
}

function compare(settlement: LedgerSettlement, transfers: readonly ChainTransfer[], findings: Findings): void {
  add(findings, 'ledger', settlement.chargeAtomic)
  for (const { to, valueAtomic } of transfers) if (to === settlement.payTo) add(findings, 'chain', valueAtomic)
  findings.differences.push(...compareSettlement(settlement, transfers))
}

/** Compares settlements without a transfer in the expected blocks; their transaction may be in another block. */
async function compareByTransaction(
  chain: TransferReader,
  settlements: readonly LedgerSettlement[],
  findings: Findings,
): Promise<void> {
  for await (const { item: settlement, mined } of lookUp(chain, settlements))
    compare(settlement, transfersOfSettlement(settlement, mined?.transfers ?? []), findings)
}

/** Looks up the transaction of each item, in pages; `mined` is `null` when no block contains it. */
async function* lookUp<T extends { readonly transaction: string }>(
  chain: TransferReader,
  all: readonly T[],
): AsyncGenerator<{ item: T; mined: MinedTransaction | null }> {
  for (let start = 0; start < all.length; start += LOOKUP_SIZE) {
    const page = all.slice(start, start + LOOKUP_SIZE)
    // Those of a batch share their transaction.
    const mined = new Map<string, Promise<MinedTransaction | null>>()
    for (const { transaction } of page)
      if (!mined.has(transaction)) mined.set(transaction, chain.readTransaction(transaction))
    yield* await Promise.all(page.map(async (item) => ({ item, mined: (await mined.get(item.transaction)) ?? null })))
  }
}

/** Classifies the transfers that match no confirmed settlement of these blocks. */
async function classifyTransfers(
  { sql, chain }: ReconciliationDependencies,
  { period, parties }: Pick<Subject, 'period' | 'parties'>,
  transfers: ReadonlyMap<string, readonly ChainTransfer[]>,
  findings: Findings,
): Promise<void> {
  const transactions = new Set([...transfers.values()].flat().map(({ transaction }) => transaction))
  const known = new Map(
    (await readSettlementsByTransaction(sql, period, [...transactions])).map((row) => [settlementKey(row), row]),
  )
  const unknown: ChainTransfer[] = []
  for (const [key, moved] of transfers) {
    const settlement = known.get(key)
    for (const transfer of moved)
      if (settlement) classifyKnown(settlement, transfer, findings)
      else unknown.push(transfer)
  }
  const facilitators = new Set(parties.facilitators)
  for await (const { item: transfer, mined } of lookUp(chain, unknown)) {
    if (mined && isSettledByUs(mined, { facilitators, proxy: UPTO_PROXY_ADDRESS }))
      findings.differences.push({
        kind: 'unknown_to_ledger',
        jobId: null,
        transaction: transfer.transaction,
        detail: `${transfer.valueAtomic} from ${transfer.from} in block ${transfer.blockNumber}`,
      })
    else add(findings, 'otherTransfers', transfer.valueAtomic)
  }
}

function classifyKnown(
  { state, isInPeriod, jobId }: LedgerSettlement,
  { transaction, valueAtomic }: ChainTransfer,
  findings: Findings,
): void {
  if (state === 'signed') add(findings, 'settling', valueAtomic)
  else if (state !== 'confirmed')
    findings.differences.push({
      kind: 'unsettled_in_ledger',
      jobId,
      transaction,
      detail: `${valueAtomic} was transferred; the settlement is ${state}`,
    })
  // A settlement of the period with other blocks in the ledger is compared by reconcileOtherBlocks.
  else if (!isInPeriod) add(findings, 'otherPeriods', valueAtomic)
}

/** Compares the period's settlements outside of the period's blocks, such as those mined just before it began. */
async function reconcileOtherBlocks(
  { sql, chain }: ReconciliationDependencies,
  { period }: Subject,
  blocks: BlockRange,
  findings: Findings,
): Promise<void> {
  for (let after = LEAST_ID; ;) {
    const page = await readSettlementsOutsideBlocks(sql, period, blocks, { after, limit: LOOKUP_SIZE })
    await compareByTransaction(chain, page, findings)
    const last = page.at(-1)
    if (!last) return
    after = last.settlementId
  }
}

async function readContradictionsAsDifferences(sql: Sql, period: LedgerPeriod): Promise<Difference[]> {
  return (await readContradictions(sql, period)).map((found) => ({
    kind: 'ledger_contradicts_itself' as const,
    jobId: found.jobId,
    transaction: found.settledTransaction,
    detail:
      `the job is ${found.jobState} with a charge of ${found.chargeAtomic ?? 'nothing'}; settled ` +
      `${found.settledAtomic ?? 'nothing'}; the receipt contains ${found.receiptAtomic ?? 'nothing'} ` +
      `in ${found.receiptTransaction ?? 'no transaction'}`,
  }))
}
