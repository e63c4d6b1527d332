import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import type { LedgerPeriod } from './period.ts'

/** Account nonces between two transactions of a settlement key for which the ledger has no transaction. */
export interface NonceGap {
  readonly first: bigint
  readonly last: bigint
}

/** Returns the settlement keys that have signed transactions of this ledger. */
export async function readSettlementAccounts(sql: Sql): Promise<readonly SettlementAccount[]> {
  return await readRows<SettlementAccount>(sql, {
    name: 'read_settlement_accounts',
    text: 'SELECT network, facilitator FROM settlement_accounts ORDER BY network, facilitator',
    values: [],
  })
}

/**
 * Returns the account nonces below `count`, the chain's, that this ledger never signed for: between or after its own
 * transactions, as far as these surround a time in the period. After its last one, the time ends when a worker noticed the
 * count or, for a key that is out of use, when a worker last kept its queue: otherwise funds that were moved away from
 * such a key would be reported forever. Whatever used the nonces spent the key's gas: a settlement or a transfer.
 */
export async function readNonceGaps(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  count: bigint,
  { from, to }: LedgerPeriod,
): Promise<readonly NonceGap[]> {
  return await readRows<NonceGap>(sql, {
    name: 'read_nonce_gaps',
    text: `WITH known AS (
       SELECT account_nonce AS nonce, min(signed_at) AS signed_at FROM settlement_transactions
       WHERE network = $1 AND facilitator = $2 AND account_nonce < $3::numeric GROUP BY account_nonce),
     noticed AS (
       SELECT CASE WHEN head_account_nonce = $3::numeric THEN head_since ELSE kept_until END AS at
       FROM settlement_accounts WHERE network = $1 AND facilitator = $2),
     gaps AS (
       SELECT nonce + 1 AS first, lead(nonce, 1, $3::numeric) OVER in_order - 1 AS last,
         signed_at AS begins, greatest(signed_at, lead(signed_at, 1, noticed.at) OVER in_order) AS ends
       FROM known, noticed WINDOW in_order AS (ORDER BY nonce))
     SELECT first, last FROM gaps WHERE last >= first AND begins < $5 AND ends >= $4 ORDER BY first`,
    values: [network, facilitator, count.toString(), from, to],
  })
}
