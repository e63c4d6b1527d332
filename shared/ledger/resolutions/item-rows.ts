import type { ResolvableItem } from '#shared/jobs/resolution.ts'
import type { ItemName, ItemRecord } from '#shared/operators/item.ts'
import type { ResolutionRecord } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { NEWEST_TRANSACTION } from '../settlement-transactions.ts'
import { IS_IN_REVIEW } from '../unknown-settlements.ts'

/** The columns of a resolution, under names that no other table has. */
const RESOLUTION = `resolutions.id AS resolution_id, resolutions.item AS resolution_item,
  resolutions.job_id AS resolution_job_id, resolutions.outcome, resolutions.amount AS resolution_amount,
  resolutions.reason AS resolution_reason, resolutions.operator, resolutions.resolved_at, resolutions.refund_transaction`

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
      NULL::text AS reason, unknown.found_at AS since,
      false AS is_result_stored, false AS is_owed, resolution.*
    FROM unknown_settlements AS unknown
    ${resolutionOf(`resolutions.item = 'unknown_settlement' AND resolutions.network = unknown.network
      AND resolutions.payer = unknown.payer AND resolutions.nonce = unknown.nonce`)}
    WHERE (resolution.resolution_id IS NOT NULL OR NOT ${IS_IN_REVIEW})`,
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

/** An item, and the columns of its resolution, which are null where there is none. */
export type ItemRow = Omit<ItemRecord, 'resolution'> &
  Omit<ResolutionRecord, 'id' | 'item' | 'jobId' | 'amount' | 'reason'> & {
    readonly resolutionId: string | null
    readonly resolutionItem: ResolutionRecord['item']
    readonly resolutionJobId: string | null
    readonly resolutionAmount: bigint
    readonly resolutionReason: string
  }

/** The columns of an item, to be listed by a statement over `ITEMS`; `versionOf` depends on their order. */
export const ITEM = `id, kind, state, job_id AS "jobId", settlement_id AS "settlementId", request_id AS "requestId",
  network, lower(payer) AS payer, lower(pay_to) AS "payTo", nonce, amount, transaction, block_number AS "blockNumber",
  paid_after AS "paidAfter", reason, since, is_result_stored AS "isResultStored", is_owed AS "isOwed",
  resolution_id AS "resolutionId", resolution_item AS "resolutionItem", resolution_job_id AS "resolutionJobId",
  outcome, resolution_amount AS "resolutionAmount", resolution_reason AS "resolutionReason", operator,
  resolved_at AS "resolvedAt", refund_transaction AS "refundTransaction"`

export function itemRecord({
  resolutionId: id,
  resolutionItem: item,
  resolutionJobId: jobId,
  outcome,
  resolutionAmount: amount,
  resolutionReason: reason,
  operator,
  resolvedAt,
  refundTransaction,
  ...row
}: ItemRow): ItemRecord {
  const resolution = { item, jobId, outcome, amount, reason, operator, resolvedAt, refundTransaction }
  return { ...row, resolution: id === null ? null : { id, ...resolution } }
}

/**
 * Returns an item, open or ended, or `null`. An unknown settlement of a job in review is part of that review, which is
 * returned instead.
 */
export async function findItem(sql: Sql, name: ItemName): Promise<ItemRecord | null> {
  if (name.kind !== 'unknown_settlement') return await findById(sql, name.kind, name.id)
  const { network, payer, nonce } = name
  const row = await readFirst<ItemRow>(sql, {
    name: 'find_item_unknown_settlement',
    text: `SELECT ${ITEM} FROM (${ITEMS.unknown_settlement}
       AND unknown.network = $1 AND unknown.payer = $2 AND unknown.nonce = $3
       AND (unknown.resolved_at IS NULL OR resolution.resolution_id IS NOT NULL)) AS items`,
    values: [network, payer, nonce.toString()],
  })
  return row ? itemRecord(row) : await findReviewOf(sql, name)
}

const ID = { review: 'jobs.id', debt: 'jobs.id', settlement: 'settlements.id' } as const

async function findById(sql: Sql, kind: keyof typeof ID, id: string): Promise<ItemRecord | null> {
  const row = await readFirst<ItemRow>(sql, {
    name: `find_item_${kind}`,
    text: `SELECT ${ITEM} FROM (${ITEMS[kind]} AND ${ID[kind]} = $1) AS items`,
    values: [id],
  })
  const item = row ? itemRecord(row) : null
  // A withheld result that its payer never had to pay for is no debt.
  return item?.kind === 'debt' && !item.isOwed && item.resolution === null ? null : item
}

/** Returns the review that an unknown settlement is part of. */
async function findReviewOf(
  sql: Sql,
  { network, payer, nonce }: Extract<ItemName, { kind: 'unknown_settlement' }>,
): Promise<ItemRecord | null> {
  const row = await readFirst<{ job_id: string }>(sql, {
    name: 'find_job_of_unknown_settlement',
    text: `SELECT jobs.id AS job_id FROM unknown_settlements AS unknown
     JOIN authorizations AS payment ON payment.network = unknown.network AND payment.payer = unknown.payer
       AND payment.nonce = unknown.nonce
     JOIN jobs ON jobs.authorization_id = payment.id
     WHERE unknown.network = $1 AND unknown.payer = $2 AND unknown.nonce = $3`,
    values: [network, payer, nonce.toString()],
  })
  return row ? await findById(sql, 'review', row.job_id) : null
}
