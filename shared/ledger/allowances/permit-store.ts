import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { columnsOf, listed } from '../listed.ts'
import type { Pool, Sql } from '../pool.ts'
import { countRows, readRows } from '../read-rows.ts'
import { shareStatement } from '../share-statements.ts'

/** The permits that wait for their owners' next charges: one an owner. */
export type PermitStore = ReturnType<typeof createPermitStore>

/** Creates the store of permits over one pool. */
export function createPermitStore(pool: Pool) {
  const findStoredPermit = shareStatement<`0x${string}`, AllowancePermit | null>({
    keyOf: (owner) => owner,
    run: (owners) => findStoredPermits(pool, owners),
  })
  return { ...bindTo(pool, { storePermit, forgetStoredPermit }), findStoredPermit }
}

/** Wallets cost a stranger little, and a deadline may be at the end of time. */
const LONGEST_DAYS = 30

/**
 * Stores a permit that was verified, in place of an earlier one of its owner. Returns whether it was: not when one of a
 * later nonce is stored.
 */
async function storePermit(sql: Sql, { owner, value, nonce, deadline, signature }: AllowancePermit): Promise<boolean> {
  const written = await countRows(sql, {
    name: 'store_permit',
    text: `INSERT INTO stored_permits AS stored (owner, value, permit_nonce, deadline, signature, expires_at)
     VALUES ($1, $2, $3, $4, $5,
       least(to_timestamp(least($4::numeric, 253402300799)::double precision), now() + make_interval(days => $6)))
     ON CONFLICT (owner) DO UPDATE SET value = excluded.value, permit_nonce = excluded.permit_nonce,
       deadline = excluded.deadline, signature = excluded.signature, expires_at = excluded.expires_at
       WHERE stored.permit_nonce <= excluded.permit_nonce`,
    values: [owner, value.toString(), nonce.toString(), deadline.toString(), signature, LONGEST_DAYS],
  })
  return written === 1
}

/** Returns each owner's permit until it expires, by the clock of the database; `null` without one. */
async function findStoredPermits(
  sql: Sql,
  owners: readonly `0x${string}`[],
): Promise<ReadonlyMap<string, AllowancePermit | null>> {
  const rows = await readRows<AllowancePermit>(sql, {
    name: 'find_stored_permits',
    text: `SELECT stored.owner, value, permit_nonce AS nonce, deadline, signature
     FROM ${listed('text')} AS asked (owner) JOIN stored_permits AS stored ON stored.owner = asked.owner AND expires_at > now()`,
    values: columnsOf(owners.map((owner) => [owner])),
  })
  const stored = new Map(rows.map((row) => [row.owner, row]))
  return new Map(owners.map((owner) => [owner, stored.get(owner) ?? null]))
}

/** Deletes the owner's permit of a nonce that is used on chain. */
async function forgetStoredPermit(sql: Sql, { owner, nonce }: Pick<AllowancePermit, 'owner' | 'nonce'>): Promise<void> {
  await countRows(sql, {
    name: 'forget_stored_permit',
    text: 'DELETE FROM stored_permits WHERE owner = $1 AND permit_nonce = $2',
    values: [owner, nonce.toString()],
  })
}
