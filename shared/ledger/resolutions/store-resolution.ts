import type { Author } from '#shared/operators/author.ts'
import {
  allowedOutcomes,
  formatItemName,
  type ItemName,
  type ItemRecord,
  parseItemName,
  type Resolution,
  type StoredResolution,
  versionOf,
} from '#shared/operators/item.ts'
import type { ResolutionRecord } from '#shared/operators/payment-record.ts'
import type { RefundTransfer } from '#shared/payment/refund.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { findItem } from './item-rows.ts'

/**
 * Ends an item, and records who did it, in one transaction with what follows from it: a debt that is paid or forgiven
 * is no longer owed, an unknown settlement is closed, and the permit of a reviewed payment is free. Operators who resolve one item together wait for each other;
 * the second finds it ended.
 */
export async function storeResolution(
  pool: Pool,
  name: ItemName,
  resolution: Resolution,
  author: Author,
): Promise<StoredResolution> {
  return await inTransaction(pool, async (sql) => {
    const found = await findItem(sql, name)
    if (!found) return { outcome: 'not_found' }
    await lock(sql, found)
    // Read again: what was read before the lock may have changed.
    const item = await findItem(sql, name)
    if (!item) return { outcome: 'not_found' }
    const allowed = allowedOutcomes(item)
    if (item.resolution !== null && !allowed.includes(resolution.outcome))
      return { outcome: 'conflict', resolution: item.resolution }
    if (!allowed.includes(resolution.outcome)) return { outcome: 'not_allowed', allowed }
    if (resolution.confirmed !== undefined && resolution.confirmed !== versionOf(item)) return { outcome: 'changed' }
    const transfer = resolution.refund ? await takeTransfer(sql, resolution.refund) : null
    if (transfer !== null && 'itemIds' in transfer) return { outcome: 'refund_used', itemIds: transfer.itemIds }
    const stored = await insertResolution(sql, item, resolution, transfer, author)
    await follow(sql, item, stored)
    await recordAction(sql, author, {
      action: 'item.resolve',
      subject: item.id,
      reason: resolution.reason,
      details: {
        outcome: resolution.outcome,
        amount: item.amount.toString(),
        payer: item.payer,
        ...(item.jobId === null ? {} : { job: item.jobId }),
        ...(transfer === null ? {} : { transaction: transfer.transaction }),
      },
    })
    return { outcome: 'resolved', resolution: stored }
  })
}

/**
 * Locks the row that the item follows from. Of a settlement its job first, as everything does that moves the job: a
 * resolution refers to both.
 */
async function lock(sql: Sql, { id, kind, jobId, settlementId, network, payer, nonce }: ItemRecord): Promise<void> {
  if (kind === 'unknown_settlement')
    await sql.query({
      name: 'lock_unknown_settlement',
      text: 'SELECT 1 FROM unknown_settlements WHERE network = $1 AND payer = $2 AND nonce = $3 FOR UPDATE',
      values: [network, payer, nonce.toString()],
    })
  else {
    if (jobId === null) throw new Error(`${id} has no job`)
    await sql.query({ name: 'lock_job_of_item', text: 'SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE', values: [jobId] })
    if (kind === 'settlement')
      await sql.query({
        name: 'lock_settlement_of_item',
        text: 'SELECT 1 FROM settlements WHERE id = $1 FOR UPDATE',
        values: [settlementId],
      })
  }
}

/** Returns the first transfer that refunds no item yet, or the items that all of them refund. */
async function takeTransfer(
  sql: Sql,
  { network, transfers }: NonNullable<Resolution['refund']>,
): Promise<(RefundTransfer & { readonly network: string }) | { readonly itemIds: readonly string[] }> {
  const [first] = transfers
  if (!first) throw new Error('a proven refund has a transfer')
  // Two items that take transfers of one transaction take turns, so that neither fails at the constraint.
  await sql.query({
    name: 'lock_refund',
    text: "SELECT pg_advisory_xact_lock(hashtextextended('farebox refund ' || $1, 0))",
    values: [first.transaction],
  })
  const rows = await readRows<RefundedItem & { logIndex: number }>(sql, {
    name: 'find_refunds_of_transaction',
    text: `SELECT refund_log_index AS "logIndex", item, job_id AS "jobId", settlement_id AS "settlementId", network,
       payer, nonce FROM resolutions
     WHERE refund_transaction = $1 AND refund_network = $2`,
    values: [first.transaction, network],
  })
  const used = new Map(rows.map((row) => [row.logIndex, row]))
  const free = transfers.find(({ logIndex }) => !used.has(logIndex))
  if (free) return { ...free, network }
  const itemIds = transfers.flatMap(({ logIndex }) => {
    const row = used.get(logIndex)
    return row ? [itemIdOf(row)] : []
  })
  return { itemIds }
}

interface RefundedItem {
  readonly item: ItemRecord['kind']
  readonly jobId: string | null
  readonly settlementId: string | null
  readonly network: string | null
  readonly payer: string
  readonly nonce: bigint | null
}

function itemIdOf({ item, jobId, settlementId, network, payer, nonce }: RefundedItem): string {
  const text =
    item === 'unknown_settlement'
      ? `${item}:${network}:${payer}:${nonce}`
      : `${item}:${item === 'settlement' ? settlementId : jobId}`
  const name = parseItemName(text)
  return name ? formatItemName(name) : text
}

async function insertResolution(
  sql: Sql,
  item: ItemRecord,
  { outcome, reason }: Resolution,
  transfer: (RefundTransfer & { readonly network: string }) | null,
  author: Author,
): Promise<ResolutionRecord> {
  const isUnknown = item.kind === 'unknown_settlement'
  const row = await readOne<Pick<ResolutionRecord, 'id' | 'resolvedAt'>>(sql, {
    name: 'insert_resolution',
    // By the clock, not by the beginning of the transaction: a debt may have come to be while this one waited.
    text: `INSERT INTO resolutions (item, job_id, settlement_id, network, payer, nonce, outcome, amount, reason, operator,
       resolved_at, refund_network, refund_transaction, refund_log_index, refund_block)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp(), $11, $12, $13, $14)
     RETURNING id, resolved_at AS "resolvedAt"`,
    values: [
      item.kind,
      item.jobId,
      item.settlementId,
      isUnknown ? item.network : null,
      item.payer,
      isUnknown ? item.nonce.toString() : null,
      outcome,
      item.amount.toString(),
      reason,
      author.operator,
      transfer?.network ?? null,
      transfer?.transaction ?? null,
      transfer?.logIndex ?? null,
      transfer?.blockNumber.toString() ?? null,
    ],
  })
  const { kind, jobId, amount } = item
  const refundTransaction = transfer?.transaction ?? null
  return { ...row, item: kind, jobId, outcome, amount, reason, operator: author.operator, refundTransaction }
}

/** Writes what follows from a resolution into the rows of the item. */
async function follow(sql: Sql, item: ItemRecord, { outcome }: ResolutionRecord): Promise<void> {
  if (item.kind === 'debt' && (outcome === 'paid_outside' || outcome === 'forgiven'))
    await sql.query({
      name: 'clear_debt',
      text: 'UPDATE jobs SET is_owed = false WHERE id = $1 AND is_owed',
      values: [item.jobId],
    })
  // While nobody knew whether the payment's permit was used, no other payment could use its nonce.
  if (item.kind === 'review')
    await sql.query({
      name: 'release_permits_of_job',
      text: `UPDATE authorizations SET permit_released_at = now()
       WHERE job_id = $1 AND permit_nonce IS NOT NULL AND permit_released_at IS NULL`,
      values: [item.jobId],
    })
  if (item.kind === 'unknown_settlement' || item.kind === 'review')
    await sql.query({
      name: 'close_unknown_settlement',
      text: `UPDATE unknown_settlements SET resolved_at = now()
       WHERE network = $1 AND payer = $2 AND nonce = $3 AND resolved_at IS NULL`,
      values: [item.network, item.payer, item.nonce.toString()],
    })
}
