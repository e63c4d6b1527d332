import type { FinalityStore, UnfinalRemoteSettlement } from '#shared/jobs/settlement-store.ts'
import type { BlockReader } from '#shared/payment/block-reader.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'

export interface RemoteFinalityDependencies {
  readonly settlementStore: Pick<FinalityStore, 'readUnfinalRemote' | 'moveSettlement' | 'loseSettlement'>
  readonly facilitator: Pick<RemoteFacilitator, 'find' | 'settle'>
  readonly blocks: Pick<BlockReader, 'readHash'>
  readonly logger: Logger
}

/** Reorganizations are noticed within this time. */
const FINALITY_POLL_MS = 5000
const BATCH = 200

/**
 * Watches confirmed settlements of a remote facilitator. When a block was replaced, requests the settlement from the
 * facilitator again, since there is no transaction of ours to resend; one that can no longer be settled is marked
 * `lost` for review.
 */
export function watchRemoteFinality(dependencies: RemoteFinalityDependencies): Sweep {
  const { settlementStore, blocks } = dependencies
  return {
    name: 'moved or lost settlements of the facilitator',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const hashes = new Map<bigint, string | null>()
      let moved = 0
      for (const settlement of await settlementStore.readUnfinalRemote(BATCH)) {
        const { number, hash } = settlement.block
        const current = hashes.get(number) ?? (await blocks.readHash(number))
        hashes.set(number, current)
        if (current !== hash && (await recheckSettlement(dependencies, settlement))) moved += 1
      }
      return moved
    },
  }
}

async function recheckSettlement(
  { settlementStore, facilitator, logger }: RemoteFinalityDependencies,
  { settlementId, jobId, authorization, chargeAmount, recordedBlock }: UnfinalRemoteSettlement,
): Promise<boolean> {
  const finding = await facilitator.find(authorization, chargeAmount, recordedBlock)
  switch (finding.outcome) {
    case 'found': {
      const { hash: transactionHash, blockNumber, blockHash } = finding
      await settlementStore.moveSettlement(settlementId, { transactionHash, blockNumber, blockHash })
      logger.warn('a settlement moved to another block', { jobId })
      return true
    }
    case 'expired':
    case 'burned':
      await settlementStore.loseSettlement(settlementId, `removed from the chain, and ${finding.outcome} since`)
      logger.error('a settlement was lost in a reorganization', { jobId, reason: finding.outcome })
      return true
    // Lagging nodes show this as well, and `lost` is permanent.
    case 'unexplained':
      logger.error('a settlement left its block although its nonce is used', { jobId })
      return false
    case 'open':
      logger.warn('a settlement was removed from the chain and requested again', { jobId })
      await facilitator.settle(authorization, chargeAmount)
      return false
    case 'unreachable':
      logger.warn('payment network unreachable', { jobId, error: finding.cause })
      return false
  }
}
