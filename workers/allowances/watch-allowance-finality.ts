import type { BlockReader } from '#shared/adapters/chain/reading/block-reader.ts'
import type { AllowanceWorkStore } from '#shared/adapters/postgres/allowances/allowance-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../sweepers/sweeper.ts'

export interface AllowanceFinalityDependencies {
  readonly allowanceStore: Pick<
    AllowanceWorkStore,
    'findUnfinalAllowanceBlocks' | 'markAllowancesFinal' | 'reopenAllowances'
  >
  readonly blocks: BlockReader
  readonly logger: Logger
}

const FINALITY_POLL_MS = 5000

/**
 * Watches permits until the block that decided them is final. One whose block a reorganization removed is open again:
 * it is sent and judged as before. No RPC call while there is nothing to watch.
 */
export function watchAllowanceFinality({ allowanceStore, blocks, logger }: AllowanceFinalityDependencies): Sweep {
  return {
    name: 'finalized or reopened sponsored permits',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const [newest] = await allowanceStore.findUnfinalAllowanceBlocks(0n)
      if (!newest) return 0
      const finalizedNumber = await blocks.readFinalizedNumber()
      const decided = await allowanceStore.findUnfinalAllowanceBlocks(finalizedNumber)
      const hashes = await Promise.all(decided.map(({ number }) => blocks.readHash(number)))
      const canonical = decided.filter(({ hash }, index) => hash === hashes[index])
      // A node behind the others has no block of that number, which proves nothing.
      const removed = decided.filter(({ hash }, index) => hashes[index] !== null && hash !== hashes[index])
      const final = canonical.filter(({ number }) => number <= finalizedNumber).map(({ hash }) => hash)
      const reopened = removed.length === 0 ? 0 : await allowanceStore.reopenAllowances(removed.map(({ hash }) => hash))
      if (reopened > 0) logger.warn('sponsored permits were removed from the chain', { count: reopened })
      return reopened + (final.length === 0 ? 0 : await allowanceStore.markAllowancesFinal(final))
    },
  }
}
