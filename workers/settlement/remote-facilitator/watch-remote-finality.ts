import type { JudgedBlock } from '#shared/ledger/settlement/end-settlement.ts'
import type { FailedSettlement } from '#shared/ledger/settlement/failed-settlements.ts'
import type { RemovedRemoteSettlement } from '#shared/ledger/settlement/finality.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import type { SettlementWatchDependencies } from '../dependencies.ts'
import { reopenSettlement } from '../finish-settlement.ts'

interface RemoteFinalityDependencies extends Pick<
  SettlementWatchDependencies,
  'settlementStore' | 'blocks' | 'logger'
> {
  readonly facilitator: RemoteFacilitator
}

/** Reorganizations are noticed within this time. */
const FINALITY_POLL_MS = 5000
const BATCH = 200
/** Failed settlements that no block judges are looked up one by one at every poll. */
const UNJUDGED_BATCH = 20

/**
 * Watches settlements of a remote facilitator. `watchFinality`, which runs beside it, notes which confirmed ones a
 * reorganization removed: they are requested from the facilitator again, since there is no transaction of ours to resend,
 * until they are in another block; one that can no longer be settled is marked `lost` for review. Failed ones are watched as
 * well: one that succeeds after a reorganization completes its job.
 */
export function watchRemoteFinality(dependencies: RemoteFinalityDependencies): Sweep {
  const { settlementStore, blocks } = dependencies
  return {
    name: 'moved or lost settlements of the facilitator',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const hashes = new Map<bigint, string | null>()
      const isOnChain = async ({ number, hash }: JudgedBlock) => {
        const current = hashes.get(number) ?? (await blocks.readHash(number))
        hashes.set(number, current)
        return current === hash
      }
      let moved = 0
      for (const settlement of await settlementStore.readRemovedRemote(BATCH))
        if (await recheckSettlement(dependencies, settlement)) moved += 1
      for (const failed of await readFailed(settlementStore))
        if (!(failed.judgedAt && (await isOnChain(failed.judgedAt))) && (await recheckFailed(dependencies, failed)))
          moved += 1
      return moved
    },
  }
}

async function readFailed(settlementStore: SettlementStore): Promise<readonly FailedSettlement[]> {
  return [
    ...(await settlementStore.readFailed('remote_facilitator', null, UNJUDGED_BATCH)),
    ...(await settlementStore.readFailed('remote_facilitator', 0n, BATCH)),
  ]
}

/** Judges a failed settlement again. Returns whether it was judged, reopened or found to be surplus. */
async function recheckFailed(
  { settlementStore, facilitator, logger }: RemoteFinalityDependencies,
  { settlementId, jobId, authorization, chargeAmount, recordedBlock, namedHashes }: FailedSettlement,
): Promise<boolean> {
  const finding = await facilitator.find(authorization, chargeAmount, recordedBlock ?? 0n)
  switch (finding.outcome) {
    case 'found': {
      const { hash: transactionHash, blockNumber, blockHash } = finding
      const settledAt = { transactionHash, blockNumber, blockHash }
      await reopenSettlement({ settlementStore, logger }, { settlementId, jobId }, settledAt)
      return true
    }
    case 'open':
      if (await mayBeMined(facilitator, authorization, chargeAmount, namedHashes)) break
      await settlementStore.judgeFailed(settlementId, { number: finding.blockNumber, hash: finding.blockHash })
      return true
    case 'expired':
    case 'burned':
      await settlementStore.judgeFailed(settlementId, { number: finding.blockNumber, hash: finding.blockHash })
      return true
    case 'unexplained':
    case 'unreachable':
      logger.warn('a failed settlement cannot be judged', { jobId, reason: finding.outcome })
  }
  await settlementStore.judgeFailed(settlementId, null)
  return false
}

/** Returns whether a transaction that the facilitator named is neither mined nor known to have failed. */
async function mayBeMined(
  facilitator: RemoteFacilitator,
  authorization: FailedSettlement['authorization'],
  chargeAmount: FailedSettlement['chargeAmount'],
  hashes: readonly `0x${string}`[],
): Promise<boolean> {
  for (const hash of hashes) {
    const { outcome } = await facilitator.confirm(hash, authorization, chargeAmount)
    if (outcome !== 'reverted' && outcome !== 'transfer_missing') return true
  }
  return false
}

/** Looks a removed settlement up and requests it again if needed. Returns whether it was moved or lost. */
async function recheckSettlement(
  { settlementStore, facilitator, logger }: RemoteFinalityDependencies,
  settlement: RemovedRemoteSettlement,
): Promise<boolean> {
  const { settlementId, jobId, authorization, chargeAmount, recordedBlock } = settlement
  const finding = await facilitator.find(authorization, chargeAmount, recordedBlock)
  switch (finding.outcome) {
    case 'found': {
      const { hash: transactionHash, blockNumber, blockHash } = finding
      await settlementStore.moveSettlement(settlementId, { transactionHash, blockNumber, blockHash })
      // The node may only have lagged.
      if (transactionHash === settlement.transactionHash && blockNumber === settlement.blockNumber) return false
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
