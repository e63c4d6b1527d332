import type { StoredTransaction, Written } from '#shared/jobs/job.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Sql } from '../pool.ts'

type Hex = `0x${string}`

/** A permit that this worker holds under a lease. */
export interface ClaimedPermit {
  readonly allowanceId: string
  readonly fence: bigint
  readonly permit: AllowancePermit
  readonly reservedGasWei: bigint
  readonly minimumBalance: bigint
  readonly network: string
  /** How long ago it was requested. */
  readonly ageMs: number
  /** `null` until it is signed. */
  readonly signed: SignedPermit | null
}

/** The account nonce of a permit with every transaction that was signed for it. */
export interface SignedPermit {
  readonly account: SettlementAccount
  readonly accountNonce: bigint
  /** Those that submit the permit, newest first. */
  readonly transactions: readonly StoredTransaction[]
  /** Those that only use up the account nonce. */
  readonly fillers: readonly StoredTransaction[]
  readonly isAbandoned: boolean
}

interface ClaimedRow {
  readonly id: string
  readonly fence: string
  readonly network: string
  readonly owner: Hex
  readonly value: string
  readonly deadline: string
  readonly permit_nonce: string
  readonly signature: Hex
  readonly reserved_gas_wei: string
  readonly minimum_balance: string
  readonly age_ms: number
  readonly is_signed: boolean
}

/**
 * Takes the lease of due permits without one, oldest first, and raises their fences, by PostgreSQL's clock. One whose
 * worker is gone is due once its lease expires.
 */
export async function claimAllowances(sql: Sql, leaseMs: number, limit: number): Promise<readonly ClaimedPermit[]> {
  const { rows } = await sql.query<ClaimedRow>({
    name: 'claim_allowances',
    text: `UPDATE sponsored_permits SET fence = fence + 1, lease_expires_at = now() + make_interval(secs => $1 / 1000.0)
     WHERE id IN (
       SELECT id FROM sponsored_permits
       WHERE state IN ('requested', 'signed') AND run_after <= now()
         AND (lease_expires_at IS NULL OR lease_expires_at <= now())
       ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id, fence, network, owner, value, deadline, permit_nonce, signature, reserved_gas_wei, minimum_balance,
       extract(epoch FROM now() - requested_at)::float8 * 1000 AS age_ms, state = 'signed' AS is_signed`,
    values: [leaseMs, limit],
  })
  const claimed: ClaimedPermit[] = []
  for (const row of rows)
    claimed.push({
      allowanceId: row.id,
      fence: BigInt(row.fence),
      permit: {
        owner: row.owner,
        value: BigInt(row.value),
        deadline: BigInt(row.deadline),
        nonce: BigInt(row.permit_nonce),
        signature: row.signature,
      },
      reservedGasWei: BigInt(row.reserved_gas_wei),
      minimumBalance: BigInt(row.minimum_balance),
      network: row.network,
      ageMs: row.age_ms,
      signed: row.is_signed ? await readSignedPermit(sql, row.id) : null,
    })
  return claimed
}

/** Extends the lease; `stale` once another worker has taken the permit over. */
export async function renewAllowance(
  sql: Sql,
  { allowanceId, fence }: ClaimedPermit,
  leaseMs: number,
): Promise<Written> {
  const { rowCount } = await sql.query({
    name: 'renew_allowance',
    text: `UPDATE sponsored_permits SET lease_expires_at = now() + make_interval(secs => $3 / 1000.0)
     WHERE id = $1 AND fence = $2 AND finished_at IS NULL`,
    values: [allowanceId, fence.toString(), leaseMs],
  })
  return rowCount === 1 ? 'written' : 'stale'
}

/** Ends the lease; the permit is due again after the delay. */
export async function releaseAllowance(
  sql: Sql,
  { allowanceId, fence }: ClaimedPermit,
  delayMs: number,
): Promise<Written> {
  const { rowCount } = await sql.query({
    name: 'release_allowance',
    text: `UPDATE sponsored_permits SET lease_expires_at = NULL, run_after = now() + make_interval(secs => $3 / 1000.0)
     WHERE id = $1 AND fence = $2 AND finished_at IS NULL`,
    values: [allowanceId, fence.toString(), delayMs],
  })
  return rowCount === 1 ? 'written' : 'stale'
}

interface TransactionRow {
  readonly facilitator: Hex
  readonly network: string
  readonly account_nonce: string
  readonly is_abandoned: boolean
  readonly hash: Hex
  readonly raw: Hex
  readonly is_filler: boolean
}

/**
 * Returns every transaction with the permit's account nonce, newest first: a sweeper may have replaced them; `null`
 * when it is not signed.
 */
export async function readSignedPermit(sql: Sql, allowanceId: string): Promise<SignedPermit | null> {
  const { rows } = await sql.query<TransactionRow>({
    name: 'read_signed_permit',
    text: `SELECT facilitator, network, account_nonce, abandoned_at IS NOT NULL AS is_abandoned, hash,
       raw_transaction AS raw, sponsored_permit_id IS NULL AS is_filler
     FROM sponsored_permits JOIN settlement_transactions AS signed USING (network, facilitator, account_nonce)
     WHERE sponsored_permits.id = $1 ORDER BY signed.signed_at DESC`,
    values: [allowanceId],
  })
  const [newest] = rows
  if (!newest) return null
  const accountNonce = BigInt(newest.account_nonce)
  const stored = rows.map(({ hash, raw, is_filler }) => ({
    hash,
    raw,
    sender: newest.facilitator,
    accountNonce,
    isFiller: is_filler,
  }))
  return {
    account: { network: newest.network, facilitator: newest.facilitator },
    accountNonce,
    transactions: stored.filter(({ isFiller }) => !isFiller),
    fillers: stored.filter(({ isFiller }) => isFiller),
    isAbandoned: newest.is_abandoned,
  }
}
