import type { SettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { UntilReachable } from '#shared/ledger/check-schema.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'

export interface ExclusiveKeysDependencies {
  readonly accounts: Pick<SettlementAccounts, 'facilitators' | 'countAccountNonces' | 'countPendingNonces'>
  readonly settlementStore: Pick<SettlementStore, 'readNextAccountNonce'>
  readonly untilReachable: UntilReachable
  readonly network: string
  readonly logger: Logger
}

/**
 * Throws a `StartFailure` when a settlement key has pending transactions that this ledger did not sign: then an
 * installation with another database uses the same key, and both would take the same account nonces. Processes over one
 * database share keys safely. A chain that cannot be reached does not prevent the start; a database is waited for.
 */
export async function requireExclusiveKeys({
  accounts,
  settlementStore,
  untilReachable,
  network,
  logger,
}: ExclusiveKeysDependencies): Promise<void> {
  for (const facilitator of accounts.facilitators) {
    const counts = await readCounts(accounts, facilitator).catch((error: unknown) => {
      logger.warn('could not check whether a settlement key is used elsewhere', { facilitator, error })
      return null
    })
    if (!counts) continue
    // Read after the chain, so it includes what other processes over this database have signed since.
    const known = await untilReachable(() => settlementStore.readNextAccountNonce({ network, facilitator }))
    const next = known ?? counts.mined
    if (counts.withPending > counts.mined && counts.withPending > next)
      throw new StartFailure(
        `SETTLEMENT_PRIVATE_KEYS: ${facilitator} has pending transactions that this database does not know; ` +
          'use separate settlement keys for each installation',
      )
  }
}

async function readCounts(accounts: ExclusiveKeysDependencies['accounts'], facilitator: `0x${string}`) {
  const [mined, withPending] = await Promise.all([
    accounts.countAccountNonces(facilitator),
    accounts.countPendingNonces(facilitator),
  ])
  return { mined, withPending }
}
