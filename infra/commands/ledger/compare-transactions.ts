import type { TransferReader } from '#shared/chain/reading/transfer-reader.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { readNonceGaps, readSettlementAccounts } from '#shared/ledger/reports/nonce-gaps.ts'
import type { LedgerPeriod } from '#shared/ledger/reports/period.ts'
import type { Difference } from './compare-settlement.ts'

/**
 * Finds transactions that a settlement key sent and the ledger does not know, of any kind, by the account nonces that
 * they used. Reads the chain first: every transaction of ours is stored before it is sent.
 */
export async function findForeignTransactions(
  { sql, chain }: { readonly sql: Sql; readonly chain: Pick<TransferReader, 'readNonceCount'> },
  period: LedgerPeriod,
): Promise<readonly Difference[]> {
  const differences: Difference[] = []
  for (const account of await readSettlementAccounts(sql)) {
    const count = await chain.readNonceCount(account.facilitator)
    for (const { first, last } of await readNonceGaps(sql, account, count, period)) {
      const nonces = first === last ? `account nonce ${first}` : `account nonces ${first} to ${last}`
      differences.push({
        kind: 'nonce_used_elsewhere',
        jobId: null,
        transaction: null,
        detail: `${nonces} of ${account.facilitator}`,
      })
    }
  }
  return differences
}
