import type { Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'
import type { LedgerPeriod } from './period.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/** What the transactions of settlements with our own keys cost, next to what they collected, in atomic USDC. */
export interface SettlementGas {
  readonly confirmed: CountAndSum
  /** Those of them that were made in batches: each has its part of its batch's gas. */
  readonly batched: CountAndSum
  /** The number of these batches. */
  readonly batches: number
  /** The charges of the confirmed ones. */
  readonly chargedAtomic: bigint
  /** Confirmed settlements whose gas exceeds their charge. */
  readonly atLoss: CountAndSum
  readonly reverted: CountAndSum
  /** Batches that reverted as a whole, which is the fault of none of their payments. */
  readonly revertedBatches: CountAndSum
}

/** Each state has an index of its own by time. */
const ended = (state: 'confirmed' | 'reverted') =>
  `SELECT state, gas_cost, charge_amount, batch_id FROM settlements
   WHERE gas_cost IS NOT NULL AND state = '${state}' AND finished_at >= $1 AND finished_at < $2`

/** One that was mined again after a reorganization, and settled then, is in the gas of its payments. */
export const REVERTED_BATCHES = `(
  SELECT reverted_at, reverted_gas_cost FROM settlement_batches WHERE reverted_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM settlement_transactions AS mined JOIN settlements ON transaction_hash = hash AND state = 'confirmed'
    WHERE mined.batch_id = settlement_batches.id)) AS reverted_batches`

/** Returns the gas of the settlements that ended in the period. Those of earlier versions have none stored. */
export async function readSettlementGas(sql: Sql, { from, to }: LedgerPeriod): Promise<SettlementGas> {
  const row = await readOne<
    Record<'confirmed' | 'batched' | 'batches' | 'loss' | 'reverted', number> &
      Record<`${'confirmed' | 'batched' | 'charged' | 'loss' | 'reverted'}_total`, bigint>
  >(sql, {
    name: 'read_settlement_gas',
    text: `SELECT count(*) FILTER (WHERE state = 'confirmed')::int AS confirmed,
       coalesce(sum(gas_cost) FILTER (WHERE state = 'confirmed'), 0) AS confirmed_total,
       count(*) FILTER (WHERE state = 'confirmed' AND batch_id IS NOT NULL)::int AS batched,
       coalesce(sum(gas_cost) FILTER (WHERE state = 'confirmed' AND batch_id IS NOT NULL), 0) AS batched_total,
       count(DISTINCT batch_id) FILTER (WHERE state = 'confirmed')::int AS batches,
       coalesce(sum(charge_amount) FILTER (WHERE state = 'confirmed'), 0) AS charged_total,
       count(*) FILTER (WHERE state = 'confirmed' AND gas_cost > charge_amount)::int AS loss,
       coalesce(sum(gas_cost - charge_amount) FILTER (WHERE state = 'confirmed' AND gas_cost > charge_amount), 0) AS loss_total,
       count(*) FILTER (WHERE state = 'reverted')::int AS reverted,
       coalesce(sum(gas_cost) FILTER (WHERE state = 'reverted'), 0) AS reverted_total
     FROM (${ended('confirmed')} UNION ALL ${ended('reverted')}) AS ended`,
    values: [from, to],
  })
  return {
    confirmed: { count: row.confirmed, totalAtomic: row.confirmed_total },
    batched: { count: row.batched, totalAtomic: row.batched_total },
    batches: row.batches,
    chargedAtomic: row.charged_total,
    atLoss: { count: row.loss, totalAtomic: row.loss_total },
    reverted: { count: row.reverted, totalAtomic: row.reverted_total },
    revertedBatches: await readRevertedBatches(sql, { from, to }),
  }
}

function readRevertedBatches(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_gas_of_reverted_batches',
    text: `SELECT ${countAndSum('reverted_gas_cost')}
     FROM ${REVERTED_BATCHES} WHERE reverted_at >= $1 AND reverted_at < $2`,
    values: [from, to],
  })
}
