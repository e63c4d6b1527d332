import type { RemoteSettlementStore, UnfinalRemoteSettlement } from '#shared/jobs/remote-settlement-store.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { BlockReader } from '#shared/payment/block-reader.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import { FINALITY_LOOK_MS } from '../own-keys/watch-finality.ts'

export interface RemoteFinalityDependencies {
  readonly settlements: Pick<SettlementStore, 'moveSettlement' | 'loseSettlement'> &
    Pick<RemoteSettlementStore, 'readUnfinalRemote'>
  readonly facilitator: Pick<RemoteFacilitator, 'find' | 'settle'>
  readonly blocks: Pick<BlockReader, 'readHash'>
  readonly logger: Logger
}

const BATCH = 200

/**
 * Looks after confirmed settlements of a remote facilitator whose block was replaced. There is no transaction of ours to send
 * again: the facilitator is asked once more. What cannot be settled any more is `lost`, for a person to look at.
 */
export function watchRemoteFinality(dependencies: RemoteFinalityDependencies): Sweep {
  const { settlements, blocks } = dependencies
  return {
    name: 'settlements of the facilitator moved',
    leastIntervalMs: FINALITY_LOOK_MS,
    run: async () => {
      const hashes = new Map<bigint, string | null>()
      let moved = 0
      for (const settlement of await settlements.readUnfinalRemote(BATCH)) {
        const { number, hash } = settlement.block
        const present = hashes.get(number) ?? (await blocks.readHash(number))
        hashes.set(number, present)
        if (present !== hash && (await lookAgain(dependencies, settlement))) moved += 1
      }
      return moved
    },
  }
}

async function lookAgain(
  { settlements, facilitator, logger }: RemoteFinalityDependencies,
  { settlementId, jobId, authorization, chargeAmount, recordedBlock }: UnfinalRemoteSettlement,
): Promise<boolean> {
  const finding = await facilitator.find(authorization, chargeAmount, recordedBlock)
  switch (finding.outcome) {
    case 'found': {
      const { hash: transactionHash, blockNumber, blockHash } = finding
      await settlements.moveSettlement(settlementId, { transactionHash, blockNumber, blockHash })
      logger.warn('a settlement is in another block now', { jobId })
      return true
    }
    case 'expired':
    case 'burned':
      await settlements.loseSettlement(settlementId, `taken out of the chain, and ${finding.outcome} since`)
      logger.error('a settlement was lost to a reorganisation of the chain', { jobId, reason: finding.outcome })
      return true
    // Nodes that lag show it too, and losing a settlement is for good.
    case 'unexplained':
      logger.error('a settlement is not where it was, and its nonce is used', { jobId })
      return false
    case 'open':
      logger.warn('a settlement was taken out of the chain and is asked for again', { jobId })
      await facilitator.settle(authorization, chargeAmount)
      return false
    case 'unreachable':
      logger.warn('payment network unreachable', { jobId, error: finding.cause })
      return false
  }
}
