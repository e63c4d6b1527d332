import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import { bindTo } from '../bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { countRows, readRows } from '../read-rows.ts'
import { insertTransaction, takeAccountNonces, unlessQueueFull } from '../settlement/account-nonces.ts'
import { inTransaction } from '../transaction.ts'
import {
  type ClaimedPermit,
  claimAllowances,
  readSignedPermit,
  releaseAllowance,
  renewAllowance,
  type SignedPermit,
} from './claim-allowances.ts'
import { confirmAllowance, failAllowance, requestAgain } from './finish-allowance.ts'
import {
  findLatestSponsored,
  findSponsoredPermit,
  readAllowanceOutcomes,
  requestAllowance,
  type VerifiedPermit,
} from './request-allowance.ts'
import { findSponsoringRefusal, hasPaid, type Limits, type SponsoringLimits } from './sponsoring-limits.ts'

type Hex = `0x${string}`

/**
 * The API's access to sponsored permits. A finished one is notified on commit as jobs are: its id on the channel of
 * outcomes.
 */
export type AllowanceRequestStore = ReturnType<typeof createAllowanceRequestStore>

/** Creates the API's store of sponsored permits over one pool. */
export function createAllowanceRequestStore(pool: Pool, network: string) {
  return {
    requestAllowance: (permit: VerifiedPermit, limits: SponsoringLimits) =>
      requestAllowance(pool, network, permit, limits),
    findSponsoringRefusal: (owner: Hex, limits: Limits) => findSponsoringRefusal(pool, { owner, digest: null }, limits),
    ...bindTo(pool, { hasPaid, findSponsoredPermit, findLatestSponsored, readAllowanceOutcomes }),
  }
}

/** The workers' access to sponsored permits. Every write is fenced by the claim. */
export type AllowanceWorkStore = ReturnType<typeof createAllowanceWorkStore>

/** Creates the workers' store of sponsored permits over one pool. */
export function createAllowanceWorkStore(pool: Pool) {
  return {
    ...bindTo(pool, { claimAllowances, renewAllowance, releaseAllowance, recordPermit, readSignedPermit }),
    ...bindTo(pool, { confirmAllowance, failAllowance, requestAgain }),
    ...bindTo(pool, { findUnfinalAllowanceBlocks, markAllowancesFinal, reopenAllowances }),
  }
}

interface Signing {
  readonly account: SettlementAccount
  readonly minimumAccountNonce: bigint
  sign(accountNonce: bigint): Promise<SignedTransaction>
}

/**
 * Moves requested → signed. The account nonce comes from the nonce queue of settlements, and the transaction signed
 * for it is stored in the same database transaction, before anything is sent, so there are no nonce gaps and any
 * worker can send what was signed. `queue_full`: the key has as many unmined transactions as nodes hold.
 */
async function recordPermit(
  pool: Pool,
  claim: ClaimedPermit,
  signing: Signing,
): Promise<SignedPermit | 'stale' | 'queue_full'> {
  const { allowanceId, fence } = claim
  const { account, minimumAccountNonce } = signing
  const record = async (sql: Sql): Promise<SignedPermit | 'stale'> => {
    const locked = await sql.query({
      name: 'lock_claimed_permit',
      text: "SELECT 1 FROM sponsored_permits WHERE id = $1 AND fence = $2 AND state = 'requested' FOR UPDATE",
      values: [allowanceId, fence.toString()],
    })
    if (locked.rowCount !== 1) return 'stale'
    const accountNonce = await takeAccountNonces(sql, account, minimumAccountNonce, 1)
    const transaction = await signing.sign(accountNonce)
    await insertTransaction(sql, {
      ...account,
      settlementId: null,
      sponsoredPermitId: allowanceId,
      accountNonce,
      transaction,
    })
    await sql.query({
      name: 'record_permit',
      text: "UPDATE sponsored_permits SET state = 'signed', facilitator = $2, account_nonce = $3 WHERE id = $1",
      values: [allowanceId, account.facilitator, accountNonce.toString()],
    })
    return {
      account,
      accountNonce,
      transactions: [{ ...transaction, sender: account.facilitator, accountNonce }],
      fillers: [],
      isAbandoned: false,
    }
  }
  return await unlessQueueFull('queue_full', () => inTransaction(pool, record))
}

interface DecidedBlock {
  readonly number: bigint
  readonly hash: Hex
}

/** As for settlements: a reorganization replaces the newest blocks. Each block costs an RPC call at every poll. */
const NEWEST_BLOCKS = 8
const FINAL_BLOCKS = 32

/**
 * Returns the newest blocks that decided permits and are not known to be final, and the oldest of those up to
 * `finalizedNumber`.
 */
async function findUnfinalAllowanceBlocks(sql: Sql, finalizedNumber: bigint): Promise<readonly DecidedBlock[]> {
  return await readRows<DecidedBlock>(sql, {
    name: 'find_unfinal_allowance_blocks',
    text: `WITH unfinal AS (
       SELECT DISTINCT block_number, block_hash FROM sponsored_permits
       WHERE block_hash IS NOT NULL AND finalized_at IS NULL)
     (SELECT block_number AS number, block_hash AS hash FROM unfinal ORDER BY block_number DESC LIMIT $2)
     UNION (SELECT block_number, block_hash FROM unfinal WHERE block_number <= $1 ORDER BY block_number LIMIT $3)`,
    values: [finalizedNumber.toString(), NEWEST_BLOCKS, FINAL_BLOCKS],
  })
}

/** Marks permits that these blocks decided as final. Returns their number. */
async function markAllowancesFinal(sql: Sql, blockHashes: readonly Hex[]): Promise<number> {
  return await countRows(sql, {
    name: 'mark_allowances_final',
    text: `UPDATE sponsored_permits SET finalized_at = now()
     WHERE block_hash = ANY($1) AND finalized_at IS NULL`,
    values: [blockHashes],
  })
}

/**
 * Moves permits that these blocks decided back to signed: the chain no longer contains the blocks, so they are sent
 * and judged again. Raises the fence, as a claim does.
 */
async function reopenAllowances(sql: Sql, blockHashes: readonly Hex[]): Promise<number> {
  return await countRows(sql, {
    name: 'reopen_allowances',
    text: `WITH moved AS (
       UPDATE sponsored_permits SET state = 'signed', fence = fence + 1, finished_at = NULL, lease_expires_at = NULL,
         run_after = now(), is_granted_elsewhere = false, failure_code = NULL, failure_reason = NULL, block_number = NULL, block_hash = NULL,
         transaction_hash = NULL, gas_used = NULL, effective_gas_price = NULL, gas_wei = NULL, gas_cost = NULL
       WHERE block_hash = ANY($1) AND finalized_at IS NULL RETURNING id)
     SELECT id, pg_notify('farebox_allowances', id::text) FROM moved`,
    values: [blockHashes],
  })
}
