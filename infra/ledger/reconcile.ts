import { UPTO_PROXY_ADDRESS } from '#shared/adapters/chain/contracts.ts'
import type {
  BlockRange,
  ChainTransfer,
  MinedTransaction,
  TransferReader,
} from '#shared/adapters/chain/transfer-reader.ts'
import type { Sql } from '#shared/adapters/postgres/pool.ts'
import { readContradictions } from '#shared/adapters/postgres/reports/contradictions.ts'
import {
  type LedgerSettlement,
  readSettlementsByTransaction,
  readSettlementsInBlocks,
  readSettlementsOutsideBlocks,
} from '#shared/adapters/postgres/reports/ledger-settlements.ts'
import type { PaymentParties } from '#shared/adapters/postgres/reports/payment-parties.ts'
import type { LedgerPeriod } from '#shared/adapters/postgres/reports/period.ts'
import type { CountAndSum } from '#shared/adapters/postgres/reports/revenue.ts'
import { compareSettlement, type Difference, isCollectedByUs } from './compare-settlement.ts'

/** What ledger and chain say about the period's settlements. Sums are atomic USDC. */
export interface Reconciliation {
  readonly blocks: BlockRange
  /** The period's confirmed settlements. */
  readonly ledger: CountAndSum
  /** The transfers found for them. */
  readonly chain: CountAndSum
  /** Transfers in these blocks whose settlement is signed and not decided in the ledger yet. */
  readonly settling: CountAndSum
  /** Transfers in these blocks whose settlement was confirmed before or after the period. */
  readonly otherPeriods: CountAndSum
  /** USDC that somebody sent to a recipient of ours by other means. */
  readonly otherTransfers: CountAndSum
  readonly differences: readonly Difference[]
}

export interface ReconciliationDependencies {
  readonly sql: Sql
  readonly chain: TransferReader
  /** Told after each range of blocks. */
  readonly onProgress?: (done: bigint, all: bigint) => void
}

interface Subject {
  readonly period: LedgerPeriod
  readonly parties: PaymentParties
  /** Blocks of one `eth_getLogs`. */
  readonly logRange: bigint
}

/** How many single transactions are looked up at a time. */
const LOOKUP_SIZE = 200
const LEAST_ID = '00000000-0000-0000-0000-000000000000'

interface Findings {
  ledger: CountAndSum
  chain: CountAndSum
  settling: CountAndSum
  otherPeriods: CountAndSum
  otherTransfers: CountAndSum
  readonly differences: Difference[]
}

type SumName = Exclude<keyof Findings, 'differences'>

const NOTHING: CountAndSum = { count: 0, totalAtomic: 0n }

function add(findings: Findings, sum: SumName, valueAtomic: bigint): void {
  const { count, totalAtomic } = findings[sum]
  findings[sum] = { count: count + 1, totalAtomic: totalAtomic + valueAtomic }
}

/**
 * Holds the period's settlements against the chain, transfer by transfer. Only one range of blocks is in memory at a time. The
 * blocks must be known before the ledger is read: every transfer is stored before it is sent, so no transfer in them can
 * then be unknown by mere lateness.
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
    differences: await readInnerDifferences(dependencies.sql, subject.period),
  }
  for (const range of rangesOf(blocks, subject.logRange)) {
    await reconcileRange(dependencies, subject, range, findings)
    dependencies.onProgress?.(range.last - blocks.first + 1n, blocks.last - blocks.first + 1n)
  }
  await reconcileElsewhere(dependencies, subject, blocks, findings)
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

/** The blocks of a period: those with a time in it, and up to the head when the period reaches the present. */
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
  const transfers = Map.groupBy(
    await chain.readTransfers(parties.recipients, range),
    ({ transaction }) => transaction as string,
  )
  const settlements = await readSettlementsInBlocks(sql, period, range)
  const unseen: LedgerSettlement[] = []
  for (const settlement of settlements) {
    const own = transfers.get(settlement.transaction)
    transfers.delete(settlement.transaction)
    if (!settlement.isInPeriod) for (const { valueAtomic } of own ?? []) add(findings, 'otherPeriods', valueAtomic)
    else if (own) compare(settlement, own, findings)
    else unseen.push(settlement)
  }
  await compareOneByOne(chain, unseen, findings)
  await explainTransfers({ sql, chain }, { period, parties }, transfers, findings)
}

function compare(settlement: LedgerSettlement, transfers: readonly ChainTransfer[], findings: Findings): void {
  add(findings, 'ledger', settlement.chargeAtomic)
  for (const { to, valueAtomic } of transfers) if (to === settlement.payTo) add(findings, 'chain', valueAtomic)
  findings.differences.push(...compareSettlement(settlement, transfers))
}

/** Settlements without a transfer where the ledger has them: the transaction itself says whether it lies elsewhere. */
async function compareOneByOne(
  chain: TransferReader,
  settlements: readonly LedgerSettlement[],
  findings: Findings,
): Promise<void> {
  for await (const { asked: settlement, mined } of lookUp(chain, settlements))
    compare(settlement, mined?.transfers ?? [], findings)
}

/** The transaction of each, some of them at a time; `mined` is `null` when no block holds it. */
async function* lookUp<T extends { readonly transaction: string }>(
  chain: TransferReader,
  all: readonly T[],
): AsyncGenerator<{ asked: T; mined: MinedTransaction | null }> {
  for (let start = 0; start < all.length; start += LOOKUP_SIZE) {
    const page = all.slice(start, start + LOOKUP_SIZE)
    yield* await Promise.all(
      page.map(async (asked) => ({ asked, mined: await chain.readTransaction(asked.transaction) })),
    )
  }
}

/** Transfers that no confirmed settlement of these blocks accounts for. */
async function explainTransfers(
  { sql, chain }: ReconciliationDependencies,
  { period, parties }: Pick<Subject, 'period' | 'parties'>,
  transfers: ReadonlyMap<string, readonly ChainTransfer[]>,
  findings: Findings,
): Promise<void> {
  const known = new Map(
    (await readSettlementsByTransaction(sql, period, [...transfers.keys()])).map((row) => [row.transaction, row]),
  )
  const strangers: ChainTransfer[] = []
  for (const [transaction, moved] of transfers) {
    const settlement = known.get(transaction)
    for (const transfer of moved)
      if (settlement) explainKnown(settlement, transfer, findings)
      else strangers.push(transfer)
  }
  const facilitators = new Set(parties.facilitators)
  for await (const { asked: transfer, mined } of lookUp(chain, strangers)) {
    if (mined && isCollectedByUs(mined, { facilitators, proxy: UPTO_PROXY_ADDRESS }))
      findings.differences.push({
        kind: 'unknown_to_ledger',
        jobId: null,
        transaction: transfer.transaction,
        detail: `${transfer.valueAtomic} from ${transfer.from} in block ${transfer.blockNumber}`,
      })
    else add(findings, 'otherTransfers', transfer.valueAtomic)
  }
}

function explainKnown(
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
      detail: `${valueAtomic} moved; the settlement is ${state}`,
    })
  // One of the period that the ledger places in other blocks is compared there.
  else if (!isInPeriod) add(findings, 'otherPeriods', valueAtomic)
}

/** The period's settlements that the ledger places outside of the period's blocks, such as those mined just before it began. */
async function reconcileElsewhere(
  { sql, chain }: ReconciliationDependencies,
  { period }: Subject,
  blocks: BlockRange,
  findings: Findings,
): Promise<void> {
  for (let after = LEAST_ID; ; ) {
    const page = await readSettlementsOutsideBlocks(sql, period, blocks, { after, limit: LOOKUP_SIZE })
    await compareOneByOne(chain, page, findings)
    const last = page.at(-1)
    if (!last) return
    after = last.settlementId
  }
}

async function readInnerDifferences(sql: Sql, period: LedgerPeriod): Promise<Difference[]> {
  return (await readContradictions(sql, period)).map((found) => ({
    kind: 'ledger_contradicts_itself' as const,
    jobId: found.jobId,
    transaction: found.settledTransaction,
    detail:
      `the job is ${found.jobState} with a charge of ${found.chargeAtomic ?? 'nothing'}; settled ` +
      `${found.settledAtomic ?? 'nothing'}; the receipt says ${found.receiptAtomic ?? 'nothing'} in ${found.receiptTransaction ?? 'no transaction'}`,
  }))
}
