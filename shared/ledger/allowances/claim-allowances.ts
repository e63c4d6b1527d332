import type { StoredTransaction, Written } from '#shared/jobs/job.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Sql } from '../pool.ts'
import { readRows, writeFenced } from '../read-rows.ts'

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

type ClaimedRow = Omit<ClaimedPermit, 'permit' | 'signed'> & AllowancePermit & { readonly isSigned: boolean }

/**
 * Takes the lease of due permits without one, oldest first, and raises their fences, by PostgreSQL's clock. One whose
 * worker is gone is due once its lease expires.
 */
export async function claimAllowances(sql: Sql, leaseMs: number, limit: number): Promise<readonly ClaimedPermit[]> {
  const rows = await readRows<ClaimedRow>(sql, {
    name: 'claim_allowances',
    text: `UPDATE sponsored_permits SET fence = fence + 1, lease_expires_at = now() + make_interval(secs => $1 / 1000.0)
     WHERE id IN (
       SELECT id FROM sponsored_permits
       WHERE state IN ('requested', 'signed') AND run_after <= now()
         AND (lease_expires_at IS NULL OR lease_expires_at <= now())
       ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id AS "allowanceId", fence, network, owner, value, deadline, permit_nonce AS nonce, signature,
       reserved_gas_wei AS "reservedGasWei", minimum_balance AS "minimumBalance",
       extract(epoch FROM now() - requested_at)::float8 * 1000 AS "ageMs", state = 'signed' AS "isSigned"`,
    values: [leaseMs, limit],
  })
  const claimed: ClaimedPermit[] = []
  for (const { owner, value, deadline, nonce, signature, isSigned, ...claim } of rows) {
    const signed = isSigned ? await readSignedPermit(sql, claim.allowanceId) : null
    claimed.push({ ...claim, permit: { owner, value, deadline, nonce, signature }, signed })
  }
  return claimed
}

/** Extends the lease; `stale` once another worker has taken the permit over. */
export async function renewAllowance(
  sql: Sql,
  { allowanceId, fence }: ClaimedPermit,
  leaseMs: number,
): Promise<Written> {
  return await writeFenced(sql, {
    name: 'renew_allowance',
    text: `UPDATE sponsored_permits SET lease_expires_at = now() + make_interval(secs => $3 / 1000.0)
     WHERE id = $1 AND fence = $2 AND finished_at IS NULL`,
    values: [allowanceId, fence.toString(), leaseMs],
  })
}

/** Ends the lease; the permit is due again after the delay. */
export async function releaseAllowance(
  sql: Sql,
  { allowanceId, fence }: ClaimedPermit,
  delayMs: number,
): Promise<Written> {
  return await writeFenced(sql, {
    name: 'release_allowance',
    text: `UPDATE sponsored_permits SET lease_expires_at = NULL, run_after = now() + make_interval(secs => $3 / 1000.0)
     WHERE id = $1 AND fence = $2 AND finished_at IS NULL`,
    values: [allowanceId, fence.toString(), delayMs],
  })
}

type TransactionRow = StoredTransaction & {
  readonly network: string
  readonly isAbandoned: boolean
  readonly isFiller: boolean
}

/**
 * Returns every transaction with the permit's account nonce, newest first: a sweeper may have replaced them; `null`
 * when it is not signed.
 */
export async function readSignedPermit(sql: Sql, allowanceId: string): Promise<SignedPermit | null> {
  const rows = await readRows<TransactionRow>(sql, {
    name: 'read_signed_permit',
    text: `SELECT facilitator AS sender, network, account_nonce AS "accountNonce",
       abandoned_at IS NOT NULL AS "isAbandoned", hash, raw_transaction AS raw, sponsored_permit_id IS NULL AS "isFiller"
     FROM sponsored_permits JOIN settlement_transactions AS signed USING (network, facilitator, account_nonce)
     WHERE sponsored_permits.id = $1 ORDER BY signed.signed_at DESC`,
    values: [allowanceId],
  })
  const [newest] = rows
  if (!newest) return null
  const { network, sender: facilitator, accountNonce, isAbandoned } = newest
  return {
    account: { network, facilitator },
    accountNonce,
    transactions: rows.filter(({ isFiller }) => !isFiller),
    fillers: rows.filter(({ isFiller }) => isFiller),
    isAbandoned,
  }
}
