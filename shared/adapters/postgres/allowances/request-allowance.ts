import type { AllowanceRequest, AllowanceRequestStore } from '#shared/jobs/allowance-store.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { findSponsoringRefusal } from './sponsoring-limits.ts'

type Permit = Parameters<AllowanceRequestStore['requestAllowance']>[0]
type Limits = Parameters<AllowanceRequestStore['requestAllowance']>[1]

/** All requests take this lock in turn: each sees what the earlier ones reserved. */
const LOCK = "pg_advisory_xact_lock(hashtextextended('farebox sponsored permits', 0))"

/** Stores a permit unless a limit forbids it, and notifies the workers on commit. */
export async function requestAllowance(
  pool: Pool,
  network: string,
  permit: Permit,
  limits: Limits,
): Promise<AllowanceRequest> {
  return await inTransaction(pool, async (sql) => {
    await sql.query(`SELECT ${LOCK}`)
    const existing = await findExisting(sql, permit.digest)
    if (existing && !existing.may_be_tried_again)
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

interface ExistingRow {
  readonly id: string
  readonly state: string
  readonly may_be_tried_again: boolean
}

async function findExisting(sql: Sql, digest: string): Promise<ExistingRow | undefined> {
  const { rows } = await sql.query<ExistingRow>({
    name: 'find_requested_permit',
    text: `SELECT id, state, state = 'failed' AND gas_wei IS NULL AS may_be_tried_again
     FROM sponsored_permits WHERE digest = $1`,
    values: [digest],
  })
  return rows[0]
}

/** The two states before the end are one to callers. */
export function stateOf(state: string): 'pending' | 'confirmed' | 'failed' {
  return state === 'confirmed' || state === 'failed' ? state : 'pending'
}

/** Inserts the permit, or starts one again that failed without a cost. */
async function store(sql: Sql, network: string, permit: Permit, limits: Limits): Promise<string> {
  const { rows } = await sql.query<{ id: string }>({
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
  const [row] = rows
  if (!row) throw new Error('an upsert always returns its row')
  return row.id
}
