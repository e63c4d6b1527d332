import type { Written } from '#shared/jobs/job.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { Sql } from '../pool.ts'
import { writeFenced } from '../read-rows.ts'
import type { ClaimedPermit } from './claim-allowances.ts'

type Hex = `0x${string}`

/** Why a sponsored permit ended without an allowance. */
export type AllowanceFailureCode =
  /** Its deadline has passed, or would pass before it is mined. */
  | 'permit_expired'
  /** Its nonce is used and the allowance does not suffice. */
  | 'permit_already_used'
  /** The asset refuses it. */
  | 'permit_rejected'
  | 'owner_has_code'
  | 'owner_balance_too_low'
  /** The settlement key has no gas to spare, or fees rose beyond what was reserved. */
  | 'gas_unavailable'
  | 'payment_network_unavailable'
  /** Mined without effect: the only one that costs gas. */
  | 'permit_reverted'

/** What the mined transaction of an account nonce cost, and where. */
export interface MinedPermit {
  readonly transaction: Hex
  readonly blockNumber: bigint
  readonly blockHash: Hex
  readonly gas: GasSpent
  /** The same cost in wei of the native token. */
  readonly costWei: bigint
}

/** How Permit2 got the allowance. */
export type GrantedAllowance =
  | { readonly by: 'own_transaction'; readonly mined: MinedPermit }
  /** `mined`: what our own transaction cost, if one was mined without effect. */
  | { readonly by: 'other_submission'; readonly blockNumber: bigint; readonly mined: MinedPermit | null }

interface Failure {
  readonly code: AllowanceFailureCode
  readonly reason: string
}

/** Moves requested or signed → confirmed and notifies the waiting API on commit. */
export function confirmAllowance(sql: Sql, claim: ClaimedPermit, granted: GrantedAllowance): Promise<Written> {
  const { by, mined } = granted
  const blockNumber = by === 'own_transaction' ? granted.mined.blockNumber : granted.blockNumber
  return finish(sql, claim, { state: 'confirmed', failure: null, by, blockNumber, mined })
}

/**
 * Moves requested or signed → failed and notifies the waiting API on commit. A signed one needs `mined`, which used up
 * its account nonce: the answer to the commit that stored its transaction may have been lost.
 */
export function failAllowance(
  sql: Sql,
  claim: ClaimedPermit,
  failure: Failure,
  mined: MinedPermit | null,
): Promise<Written> {
  return finish(sql, claim, { state: 'failed', failure, by: null, blockNumber: mined?.blockNumber ?? null, mined })
}

interface Ending {
  readonly state: 'confirmed' | 'failed'
  readonly failure: Failure | null
  readonly by: GrantedAllowance['by'] | null
  readonly blockNumber: bigint | null
  readonly mined: MinedPermit | null
}

async function finish(
  sql: Sql,
  { allowanceId, fence }: ClaimedPermit,
  { state, failure, by, blockNumber, mined }: Ending,
): Promise<Written> {
  return await writeFenced(sql, {
    name: 'finish_allowance',
    text: `WITH moved AS (
       UPDATE sponsored_permits SET state = $3, finished_at = now(), lease_expires_at = NULL, failure_code = $4,
         failure_reason = $5, block_number = $6, block_hash = $7, transaction_hash = $8, gas_used = $9,
         effective_gas_price = $10, gas_wei = $11, gas_cost = $12, is_granted_elsewhere = $13
       WHERE id = $1 AND fence = $2 AND finished_at IS NULL AND (state = 'requested' OR $8::text IS NOT NULL)
       RETURNING id)
     SELECT pg_notify('farebox_outcomes', id::text) FROM moved`,
    values: [
      allowanceId,
      fence.toString(),
      state,
      failure?.code ?? null,
      failure?.reason ?? null,
      blockNumber?.toString() ?? null,
      mined?.blockHash ?? null,
      mined?.transaction ?? null,
      mined?.gas.gasUsed.toString() ?? null,
      mined?.gas.effectiveGasPrice.toString() ?? null,
      mined?.costWei.toString() ?? null,
      mined?.gas.cost.toString() ?? null,
      by === 'other_submission',
    ],
  })
}

/**
 * Moves signed → requested, after its account nonce was used outside this ledger: nothing that was signed for it can
 * be mined any more.
 */
export async function requestAgain(sql: Sql, { allowanceId, fence }: ClaimedPermit): Promise<Written> {
  return await writeFenced(sql, {
    name: 'request_allowance_again',
    text: `WITH moved AS (
       UPDATE sponsored_permits SET state = 'requested', facilitator = NULL, account_nonce = NULL, abandoned_at = NULL,
         lease_expires_at = NULL, run_after = now()
       WHERE id = $1 AND fence = $2 AND state = 'signed' RETURNING id)
     SELECT pg_notify('farebox_allowances', id::text) FROM moved`,
    values: [allowanceId, fence.toString()],
  })
}
