import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { ItemName, ItemRecord } from '#shared/operators/item.ts'
import type { ResolutionRecord } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { NEWEST_TRANSACTION } from '../settlement-transactions.ts'

/** The columns of a resolution, under names that no other table has. */
export const RESOLUTION = `resolutions.id AS resolution_id, resolutions.item AS resolution_item,
  resolutions.job_id AS resolution_job_id, resolutions.outcome, resolutions.amount AS resolution_amount,
  resolutions.reason AS resolution_reason, resolutions.operator, resolutions.resolved_at, resolutions.refund_transaction`

export interface ResolutionRow {
  readonly resolution_id: string | null
  readonly resolution_item: ResolvableItem
  readonly resolution_job_id: string | null
  readonly outcome: ResolutionOutcome
  readonly resolution_amount: string
  readonly resolution_reason: string
  readonly operator: string
  readonly resolved_at: Date
  readonly refund_transaction: string | null
}

export function resolutionRecord(row: ResolutionRow): ResolutionRecord {
  if (row.resolution_id === null) throw new Error('a resolution has an id')
  return {
    id: row.resolution_id,
    item: row.resolution_item,
    jobId: row.resolution_job_id,
    outcome: row.outcome,
    amount: BigInt(row.resolution_amount),
    reason: row.resolution_reason,
    operator: row.operator,
    resolvedAt: row.resolved_at,
    refundTransaction: row.refund_transaction,
  }
}

/** Newest first; null where there is none. Of a debt only what was decided since the charge is owed. */
const resolutionOf = (condition: string) => `LEFT JOIN LATERAL (
    SELECT ${RESOLUTION} FROM resolutions WHERE ${condition} ORDER BY resolved_at DESC LIMIT 1) AS resolution ON true`

const RESULT_IS_STORED = `jobs.result_body IS NOT NULL AND jobs.result_expired_at IS NULL AND NOT EXISTS (
    SELECT FROM media WHERE media.job_id = jobs.id HAVING max(media.expires_at) <= now())`

/**
 * A row for each item of a kind; the statement that uses it adds conditions. Each state is compared by itself where it
 * has a partial index of its own, which `IN` would not use.
 */
export const ITEMS: Readonly<Record<ResolvableItem, string>> = {
  review: `SELECT 'review:' || jobs.id AS id, 'review' AS kind, coalesce(settlements.state, 'review') AS state,
      jobs.id AS job_id, settlements.id AS settlement_id, jobs.request_id, authorizations.network, jobs.payer,
      authorizations.signed ->> 'payTo' AS pay_to, authorizations.nonce,
      coalesce(unknown.amount, settlements.charge_amount, jobs.charge_amount, authorizations.authorized_maximum) AS amount,
      coalesce(unknown.transaction_hash, settlements.transaction_hash, ${NEWEST_TRANSACTION}) AS transaction,
      coalesce(unknown.block_number, settlements.block_number) AS block_number, authorizations.claimed_at AS paid_after,
      jobs.failure_reason AS reason, coalesce(jobs.finished_at, jobs.accepted_at) AS since,
      (${RESULT_IS_STORED}) AS is_result_stored, jobs.is_owed, resolution.*
    FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
    LEFT JOIN settlements ON settlements.authorization_id = jobs.authorization_id
    LEFT JOIN unknown_settlements AS unknown ON unknown.network = authorizations.network
      AND unknown.payer = authorizations.payer AND unknown.nonce = authorizations.nonce
    ${resolutionOf("resolutions.job_id = jobs.id AND resolutions.item = 'review'")}
    WHERE jobs.state = 'review'`,
  settlement: `SELECT 'settlement:' || settlements.id AS id, 'settlement' AS kind, settlements.state,
      jobs.id AS job_id, settlements.id AS settlement_id, jobs.request_id, authorizations.network, settlements.payer,
      authorizations.signed ->> 'payTo' AS pay_to, authorizations.nonce, settlements.charge_amount AS amount,
      coalesce(settlements.transaction_hash, ${NEWEST_TRANSACTION}) AS transaction,
      settlements.block_number, authorizations.claimed_at AS paid_after,
      settlements.failure_reason AS reason, coalesce(settlements.finished_at, settlements.signed_at) AS since,
      false AS is_result_stored, jobs.is_owed, resolution.*
    FROM settlements JOIN jobs ON jobs.id = settlements.job_id
    JOIN authorizations ON authorizations.id = settlements.authorization_id
    ${resolutionOf("resolutions.settlement_id = settlements.id AND resolutions.item = 'settlement'")}
    WHERE (settlements.state = 'lost' OR settlements.state = 'surplus')`,
  unknown_settlement: `SELECT 'unknown_settlement:' || unknown.network || ':' || unknown.payer || ':' || unknown.nonce AS id,
      'unknown_settlement' AS kind, 'unknown' AS state,
      unknown.job_id, NULL::uuid AS settlement_id, unknown.request_id, unknown.network, unknown.payer,
      unknown.pay_to, unknown.nonce, unknown.amount, unknown.transaction_hash AS transaction,
      unknown.block_number, NULL::timestamptz AS paid_after,
      unknown.resolution AS reason, unknown.found_at AS since,
      false AS is_result_stored, false AS is_owed, resolution.*
    FROM unknown_settlements AS unknown
    ${resolutionOf(`resolutions.item = 'unknown_settlement' AND resolutions.network = unknown.network
      AND resolutions.payer = unknown.payer AND resolutions.nonce = unknown.nonce`)}
    WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = unknown.job_id AND jobs.state = 'review')`,
  debt: `SELECT 'debt:' || jobs.id AS id, 'debt' AS kind, 'owed' AS state,
      jobs.id AS job_id, NULL::uuid AS settlement_id, jobs.request_id, authorizations.network, jobs.payer,
      authorizations.signed ->> 'payTo' AS pay_to, authorizations.nonce, jobs.charge_amount AS amount, NULL AS transaction,
      NULL::numeric AS block_number, authorizations.claimed_at AS paid_after,
      jobs.failure_reason AS reason, coalesce(jobs.finished_at, jobs.accepted_at) AS since,
      false AS is_result_stored, jobs.is_owed, resolution.*
    FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
    ${resolutionOf(`resolutions.job_id = jobs.id AND resolutions.item = 'debt'
      AND resolutions.resolved_at >= jobs.finished_at`)}
    WHERE jobs.state = 'settlement_failed'`,
}

/** What makes an item of a kind open. */
export const IS_OPEN: Readonly<Record<ResolvableItem, string>> = {
  review: 'resolution.resolution_id IS NULL',
  settlement: 'resolution.resolution_id IS NULL',
  unknown_settlement: 'unknown.resolved_at IS NULL',
  debt: 'jobs.is_owed AND resolution.resolution_id IS NULL',
}

export interface ItemRow extends ResolutionRow {
  readonly id: string
  readonly kind: ResolvableItem
  readonly state: ItemRecord['state']
  readonly job_id: string | null
  readonly settlement_id: string | null
  readonly request_id: string | null
  readonly network: string
  readonly payer: string
  readonly pay_to: string
  readonly nonce: string
  readonly amount: string
  readonly transaction: string | null
  readonly block_number: string | null
  readonly paid_after: Date | null
  readonly reason: string | null
  readonly since: Date
  readonly is_result_stored: boolean
  readonly is_owed: boolean
}

/** The columns of an item, to be listed by a statement over `ITEMS`. */
export const ITEM = `id, kind, state, job_id, settlement_id, request_id, network, payer, pay_to, nonce, amount,
  transaction, block_number, paid_after, reason, since, is_result_stored, is_owed, resolution_id, resolution_item, resolution_job_id,
  outcome, resolution_amount, resolution_reason, operator, resolved_at, refund_transaction`

export function itemRecord(row: ItemRow): ItemRecord {
  return {
    id: row.id,
    kind: row.kind,
    state: row.state,
    jobId: row.job_id,
    settlementId: row.settlement_id,
    requestId: row.request_id,
    network: row.network,
    payer: row.payer.toLowerCase(),
    payTo: row.pay_to.toLowerCase(),
    nonce: BigInt(row.nonce),
    amount: BigInt(row.amount),
    transaction: row.transaction,
    blockNumber: row.block_number === null ? null : BigInt(row.block_number),
    paidAfter: row.paid_after,
    reason: row.reason,
    since: row.since,
    isResultStored: row.is_result_stored,
    isOwed: row.is_owed,
    resolution: row.resolution_id === null ? null : resolutionRecord(row),
  }
}

/**
 * Returns an item, open or ended, or `null`. An unknown settlement of a job in review is part of that review, which is
 * returned instead.
 */
export async function findItem(sql: Sql, name: ItemName): Promise<ItemRecord | null> {
  if (name.kind !== 'unknown_settlement') return await findById(sql, name.kind, name.id)
  const { network, payer, nonce } = name
  const { rows } = await sql.query<ItemRow>({
    name: 'find_item_unknown_settlement',
    text: `SELECT ${ITEM} FROM (${ITEMS.unknown_settlement}
       AND unknown.network = $1 AND unknown.payer = $2 AND unknown.nonce = $3
       AND (unknown.resolved_at IS NULL OR resolution.resolution_id IS NOT NULL)) AS items`,
    values: [network, payer, nonce.toString()],
  })
  return rows[0] ? itemRecord(rows[0]) : await findReviewOf(sql, name)
}

const ID = { review: 'jobs.id', debt: 'jobs.id', settlement: 'settlements.id' } as const

async function findById(sql: Sql, kind: keyof typeof ID, id: string): Promise<ItemRecord | null> {
  const { rows } = await sql.query<ItemRow>({
    name: `find_item_${kind}`,
    text: `SELECT ${ITEM} FROM (${ITEMS[kind]} AND ${ID[kind]} = $1) AS items`,
    values: [id],
  })
  const item = rows[0] ? itemRecord(rows[0]) : null
  // A withheld result that its payer never had to pay for is no debt.
  return item?.kind === 'debt' && !item.isOwed && item.resolution === null ? null : item
}

/** Returns the review that an unknown settlement is part of. */
async function findReviewOf(
  sql: Sql,
  { network, payer, nonce }: Extract<ItemName, { kind: 'unknown_settlement' }>,
): Promise<ItemRecord | null> {
  const { rows } = await sql.query<{ job_id: string }>({
    name: 'find_job_of_unknown_settlement',
    text: `SELECT job_id FROM unknown_settlements
     WHERE network = $1 AND payer = $2 AND nonce = $3 AND job_id IS NOT NULL`,
    values: [network, payer, nonce.toString()],
  })
  const [row] = rows
  return row ? await findById(sql, 'review', row.job_id) : null
}
