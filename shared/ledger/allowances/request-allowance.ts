import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readOne, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import type { AllowanceFailureCode } from './finish-allowance.ts'
import { findSponsoringRefusal, type SponsoringLimits, type SponsoringRefusal } from './sponsoring-limits.ts'

type Hex = `0x${string}`

/** A permit that was verified and simulated. */
export type VerifiedPermit = AllowancePermit & { readonly digest: Hex }

export type AllowanceRequest =
  /** `existing`: the same permit was requested before. One that failed without a cost is tried again: `accepted`. */
  | {
      readonly outcome: 'accepted' | 'existing'
      readonly allowanceId: string
      readonly state: AllowanceOutcome['state']
    }
  | SponsoringRefusal

/** All requests take this lock in turn: each sees what the earlier ones reserved. */
const LOCK = "pg_advisory_xact_lock(hashtextextended('farebox sponsored permits', 0))"

/**
 * Stores a permit that was verified and simulated, unless a limit forbids it, and notifies the workers on commit. One
 * transaction under one lock: two requests with the same permit make one row, and concurrent ones cannot pass the
 * ceiling together.
 */
export async function requestAllowance(
  pool: Pool,
  network: string,
  permit: VerifiedPermit,
  limits: SponsoringLimits,
): Promise<AllowanceRequest> {
  return await inTransaction(pool, async (sql) => {
    await sql.query(`SELECT ${LOCK}`)
    const existing = await findExisting(sql, permit.digest)
    if (existing && !existing.mayBeTriedAgain)
      return { outcome: 'existing', allowanceId: existing.id, state: stateOf(existing.state) }
    await forgetNetworks(sql)
    const refusal = await findSponsoringRefusal(sql, permit, limits)
    if (refusal) return refusal
    const allowanceId = await store(sql, network, permit, limits)
    await sql.query({
      name: 'notify_of_allowance',
      text: "SELECT pg_notify('farebox_allowances', $1)",
      values: [allowanceId],
    })
    return { outcome: 'accepted', allowanceId, state: 'pending' }
  })
}

/** A network counts for a day. */
async function forgetNetworks(sql: Sql): Promise<void> {
  await sql.query({
    name: 'forget_networks_of_permits',
    text: `UPDATE sponsored_permits SET client_network = NULL
     WHERE client_network IS NOT NULL AND requested_at < now() - interval '1 day' AND finished_at IS NOT NULL`,
    values: [],
  })
}

function findExisting(sql: Sql, digest: string) {
  return readFirst<{ id: string; state: string; mayBeTriedAgain: boolean }>(sql, {
    name: 'find_requested_permit',
    text: `SELECT id, state, state = 'failed' AND gas_wei IS NULL AS "mayBeTriedAgain"
     FROM sponsored_permits WHERE digest = $1`,
    values: [digest],
  })
}

/** The two states before the end are one to callers. */
function stateOf(state: string): 'pending' | 'confirmed' | 'failed' {
  return state === 'confirmed' || state === 'failed' ? state : 'pending'
}

/** Inserts the permit, or starts one again that failed without a cost. */
async function store(sql: Sql, network: string, permit: VerifiedPermit, limits: SponsoringLimits): Promise<string> {
  const { id } = await readOne<{ id: string }>(sql, {
    name: 'store_permit',
    text: `INSERT INTO sponsored_permits
       (digest, network, owner, value, deadline, permit_nonce, signature, reserved_gas_wei, minimum_balance,
        expected_gas_wei, client_network, is_new_owner)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
       NOT EXISTS (SELECT FROM settlements WHERE payer = $3 AND state = 'confirmed'))
     ON CONFLICT (digest) DO UPDATE SET state = 'requested', requested_at = now(), finished_at = NULL, run_after = now(),
       lease_expires_at = NULL, fence = sponsored_permits.fence + 1, facilitator = NULL, account_nonce = NULL,
       abandoned_at = NULL, block_number = NULL, is_granted_elsewhere = false, finalized_at = NULL, failure_code = NULL, failure_reason = NULL,
       signature = excluded.signature, reserved_gas_wei = excluded.reserved_gas_wei,
       minimum_balance = excluded.minimum_balance, expected_gas_wei = excluded.expected_gas_wei,
       client_network = excluded.client_network, is_new_owner = excluded.is_new_owner
     RETURNING id`,
    values: [
      permit.digest,
      network,
      permit.owner,
      permit.value.toString(),
      permit.deadline.toString(),
      permit.nonce.toString(),
      permit.signature,
      limits.reservedGasWei.toString(),
      limits.minimumBalance.toString(),
      limits.expectedGasWei.toString(),
      limits.clientNetwork,
    ],
  })
  return id
}

/** The state of a sponsored permit. Nothing of the owner's ever moves. */
export type AllowanceOutcome =
  | { readonly state: 'pending' }
  /** `transaction` is `null` when another submission of the permit came first. */
  | { readonly state: 'confirmed'; readonly transaction: Hex | null; readonly blockNumber: bigint }
  | { readonly state: 'failed'; readonly code: AllowanceFailureCode; readonly transaction: Hex | null }

export interface SponsoredPermit {
  readonly allowanceId: string
  readonly owner: Hex
  readonly value: bigint
  /** The nonce of the permit. */
  readonly nonce: bigint
  readonly requestedAt: Date
  readonly outcome: AllowanceOutcome
}

interface OutcomeRow {
  readonly allowanceId: string
  readonly state: string
  readonly transaction: Hex | null
  readonly blockNumber: bigint | null
  readonly code: AllowanceFailureCode | null
}

type PermitRow = OutcomeRow & Omit<SponsoredPermit, 'outcome'>

const OUTCOME = `id AS "allowanceId", state, block_number AS "blockNumber", failure_code AS code,
  CASE WHEN NOT is_granted_elsewhere THEN transaction_hash END AS transaction`
const PERMIT = `${OUTCOME}, owner, value, permit_nonce AS nonce, requested_at AS "requestedAt"`

export async function findSponsoredPermit(sql: Sql, digest: Hex): Promise<SponsoredPermit | null> {
  const row = await readFirst<PermitRow>(sql, {
    name: 'find_sponsored_permit',
    text: `SELECT ${PERMIT} FROM sponsored_permits WHERE digest = $1`,
    values: [digest],
  })
  return row ? permitFromRow(row) : null
}

/** Returns the owner's newest permit. */
export async function findLatestSponsored(sql: Sql, owner: Hex): Promise<SponsoredPermit | null> {
  const row = await readFirst<PermitRow>(sql, {
    name: 'find_latest_sponsored',
    text: `SELECT ${PERMIT} FROM sponsored_permits WHERE owner = $1 ORDER BY requested_at DESC LIMIT 1`,
    values: [owner],
  })
  return row ? permitFromRow(row) : null
}

/** Returns the outcomes of those that exist, by id. */
export async function readAllowanceOutcomes(
  sql: Sql,
  allowanceIds: readonly string[],
): Promise<ReadonlyMap<string, AllowanceOutcome>> {
  const rows = await readRows<OutcomeRow>(sql, {
    name: 'read_allowance_outcomes',
    text: `SELECT ${OUTCOME} FROM sponsored_permits WHERE id = ANY($1::uuid[])`,
    values: [allowanceIds],
  })
  return new Map(rows.map((row) => [row.allowanceId, outcomeFromRow(row)]))
}

function permitFromRow(row: PermitRow): SponsoredPermit {
  const { allowanceId, owner, value, nonce, requestedAt } = row
  return { allowanceId, owner, value, nonce, requestedAt, outcome: outcomeFromRow(row) }
}

function outcomeFromRow({ state, transaction, blockNumber, code }: OutcomeRow): AllowanceOutcome {
  if (state === 'confirmed' && blockNumber !== null) return { state, transaction, blockNumber }
  if (state === 'failed' && code !== null) return { state, code, transaction }
  return { state: 'pending' }
}
