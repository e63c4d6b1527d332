import { USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import type { MinedTransaction, TransferReader } from '#shared/chain/reading/transfer-reader.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { readNonceGaps, readSettlementAccounts } from '#shared/ledger/reports/nonce-gaps.ts'
import type { LedgerPeriod } from '#shared/ledger/reports/period.ts'
import { type LedgerPermit, readMinedPermits } from '#shared/ledger/reports/sponsored-permits.ts'
import type { Difference, DifferenceKind } from './compare-settlement.ts'
import { LEAST_ID } from './least-id.ts'

const PAGE = 50

/** Compares the transactions of the period's sponsored permits with the chain, and what they cost. */
export async function comparePermits(
  { sql, chain }: { readonly sql: Sql; readonly chain: Pick<TransferReader, 'readTransaction'> },
  period: LedgerPeriod,
): Promise<readonly Difference[]> {
  const differences: Difference[] = []
  for (let after = LEAST_ID; ; ) {
    const page = await readMinedPermits(sql, period, { after, limit: PAGE })
    const found = page.map(async (permit) => comparePermit(permit, await chain.readTransaction(permit.transaction)))
    differences.push(...(await Promise.all(found)).flat())
    const last = page.at(-1)
    if (!last) return differences
    after = last.permitId
  }
}

function comparePermit(permit: LedgerPermit, mined: MinedTransaction | null): readonly Difference[] {
  const difference = (kind: DifferenceKind, detail: string): Difference => ({
    kind,
    jobId: null,
    transaction: permit.transaction,
    detail: `permit ${permit.permitId}: ${detail}`,
  })
  if (!mined) return [difference('permit_missing_on_chain', `the ledger contains gas of ${permit.gasWei} wei`)]
  const found: string[] = []
  const compare = (what: string, ledger: string | bigint, chain: string | bigint | null) => {
    if (ledger !== chain) found.push(`${what}: ledger ${ledger}, chain ${chain ?? 'none'}`)
  }
  compare('sender', permit.facilitator, mined.sender)
  compare('block', permit.blockNumber, mined.blockNumber)
  compare('wei', permit.gasWei, mined.gasWei)
  if (permit.isGrantedByIt) {
    compare('outcome', 'succeeded', mined.isReverted ? 'reverted' : 'succeeded')
    compare('target', USDC_ADDRESS, mined.target)
  }
  return found.map((detail) => difference('permit_differs', detail))
}

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
