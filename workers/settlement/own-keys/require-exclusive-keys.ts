import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { SettlementAccounts } from '#shared/payment/settlement-accounts.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'

export interface OwnKeysDependencies {
  readonly accounts: Pick<SettlementAccounts, 'facilitators' | 'countAccountNonces' | 'countWaitingNonces'>
  readonly settlements: Pick<SettlementStore, 'readNextAccountNonce'>
  readonly network: string
  readonly logger: Logger
}

/**
 * Throws a `StartFailure` when transactions of a settlement key are on their way that this ledger did not sign: another
 * installation, over another database, sends with the same key, and both would take the same account nonces. Processes over one
 * database share their keys safely. A chain that cannot be asked holds nobody up.
 */
export async function requireExclusiveKeys({
  accounts,
  settlements,
  network,
  logger,
}: OwnKeysDependencies): Promise<void> {
  for (const facilitator of accounts.facilitators) {
    const counts = await readCounts(accounts, facilitator).catch((error: unknown) => {
      logger.warn('whether a settlement key is used elsewhere could not be asked', { facilitator, error })
      return null
    })
    if (!counts) continue
    // Read after the chain: what another process over this database has signed meanwhile is in it.
    const next = (await settlements.readNextAccountNonce({ network, facilitator })) ?? counts.mined
    if (counts.withWaiting > counts.mined && counts.withWaiting > next)
      throw new StartFailure(
        `SETTLEMENT_PRIVATE_KEYS: transactions of ${facilitator} are on their way that this database knows nothing of; ` +
          'give each installation settlement keys of its own',
      )
  }
}

async function readCounts(accounts: OwnKeysDependencies['accounts'], facilitator: `0x${string}`) {
  const [mined, withWaiting] = await Promise.all([
    accounts.countAccountNonces(facilitator),
    accounts.countWaitingNonces(facilitator),
  ])
  return { mined, withWaiting }
}
