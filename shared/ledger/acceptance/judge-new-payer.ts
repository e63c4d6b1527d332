import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { LOSS_WINDOW_SECONDS } from '../new-payer-exposure.ts'
import type { Sql } from '../pool.ts'
import { AcceptanceRefused, type NewJob } from './acceptance.ts'
import { type NewPayers, OPEN_WORK_RETRY_SECONDS } from './new-payers.ts'
import { type PayerExposure, readPaid } from './read-exposure.ts'

/**
 * Throws `AcceptanceRefused` when the payer would have more open and lost than the highest price of one call and what they
 * have settled so far: nobody gains by paying less than they take. A single call is never refused for its price. Returns
 * whether what the payer has settled covers all of it.
 */
export async function refuseBeyondTrust(
  sql: Sql,
  { authorization: { payer, authorizedMaximum: maximum }, exposure: { highestPrice } }: NewJob,
  exposure: PayerExposure,
  newPayers: NewPayers,
): Promise<boolean> {
  const open = exposure.open.reduce((sum, { amount }) => sum + amount, 0n)
  const total = atomicAmount(open + exposure.lost + maximum)
  const paid = await paidBy(sql, payer, exposure, { maximum, total }, newPayers)
  const allowed = highestPrice + paid
  if (total > allowed && total > maximum)
    throw new AcceptanceRefused({
      outcome: 'exceeds_trust',
      open: atomicAmount(open),
      lost: exposure.lost,
      allowed: atomicAmount(allowed),
      retryAfterSeconds: open > 0n ? OPEN_WORK_RETRY_SECONDS : await lossLeavesInSeconds(sql, payer, total - allowed),
    })
  return paid >= total
}

/**
 * Throws `AcceptanceRefused` when a payment that is not covered does not fit the limit of losses. Called last: what it
 * reserves counts until the transaction has ended.
 */
export async function admitUncovered(
  sql: Sql,
  { authorization: { authorizedMaximum: maximum }, exposure: { highestPrice }, clientNetwork }: NewJob,
  newPayers: NewPayers,
): Promise<void> {
  const refusal = await newPayers.reserve(sql, { network: clientNetwork, maximum, highestPrice })
  if (refusal) throw new AcceptanceRefused({ outcome: 'new_payer_limit', ...refusal })
}

/** Reads the settlements of a payer only as far as it decides, and remembers what it read. */
async function paidBy(
  sql: Sql,
  payer: string,
  { paid: read }: PayerExposure,
  { maximum, total }: { readonly maximum: AtomicAmount; readonly total: AtomicAmount },
  newPayers: NewPayers,
): Promise<AtomicAmount> {
  if (read !== null) newPayers.recordPaid(payer, { paid: read, isAll: read < maximum })
  const known = newPayers.paidBy(payer)
  if (known.isAll || known.paid >= total) return known.paid
  // Further than needed, so that payments in parallel do not read it each.
  const upTo = atomicAmount(2n * total)
  const paid = await readPaid(sql, payer, upTo)
  newPayers.recordPaid(payer, { paid, isAll: paid < upTo })
  return paid
}

/** Returns the seconds until losses of this amount no longer count. */
async function lossLeavesInSeconds(sql: Sql, payer: string, amount: bigint): Promise<number> {
  const { rows } = await sql.query<{ seconds: number }>({
    name: 'read_leaving_losses',
    text: `SELECT extract(epoch FROM created_at + make_interval(secs => $3) - clock_timestamp())::float8 AS seconds
     FROM (SELECT created_at, sum(amount) OVER (ORDER BY created_at, id) AS left_by_then FROM uncharged_work
       WHERE payer = $1 AND kind <> 'lost_call' AND created_at > now() - make_interval(secs => $3)) AS losses
     WHERE left_by_then >= $2::numeric ORDER BY created_at LIMIT 1`,
    values: [payer, amount.toString(), LOSS_WINDOW_SECONDS],
  })
  return Math.max(1, Math.ceil(rows[0]?.seconds ?? LOSS_WINDOW_SECONDS))
}
