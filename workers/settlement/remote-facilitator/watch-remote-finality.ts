import type { FailedSettlement } from '#shared/ledger/settlement/failed-settlements.ts'
import type { UnfinalRemoteSettlement } from '#shared/ledger/settlement/finality.ts'
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
 * Watches confirmed settlements of a remote facilitator. When a block was replaced, requests the settlement from the
 * facilitator again, since there is no transaction of ours to resend; one that can no longer be settled is marked
 * `lost` for review. Failed ones are watched as well: one that succeeds after a reorganization completes its job.
 */
export function watchRemoteFinality(dependencies: RemoteFinalityDependencies): Sweep {
  const { settlementStore, blocks } = dependencies
  return {
    name: 'moved or lost settlements of the facilitator',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const hashes = new Map<bigint, string | null>()
      const isOnChain = async ({ number, hash }: { readonly number: bigint; readonly hash: string | null }) => {
        const current = hashes.get(number) ?? (await blocks.readHash(number))
        hashes.set(number, current)
        return current === hash
      }
      let moved = 0
      for (const settlement of await settlementStore.readUnfinalRemote(BATCH))
        if (!(await isOnChain(settlement.block)) && (await recheckSettlement(dependencies, settlement))) moved += 1
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
