import type { BlockReader } from '#shared/chain/reading/block-reader.ts'
import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { FailedSettlement } from '#shared/ledger/settlement/failed-settlements.ts'
import type { RemovedSettlement, SettledBlock } from '#shared/ledger/settlement/finality.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import type { SettlementWatchDependencies } from '../dependencies.ts'
import { reopenSettlement } from '../finish-settlement.ts'
import { judgeSettlement } from './judge-settlement.ts'
import { readStatuses, recordRevertedBatches, sendersOf } from './read-statuses.ts'
import { signReleasedAgain } from './sign-again.ts'

/**
 * Reorganizations are noticed within this time. A poll takes two calls, and one for each of the newest settled blocks.
 */
const FINALITY_POLL_MS = 5000
const BATCH = 200
/** Settlements that no block judges are looked up one by one at every poll. */
const UNJUDGED_BATCH = 20

/**
 * Watches settlements until the block that decided them is final. Resends confirmed ones that a reorganization removed
 * from the chain, and signs them again when their transactions cannot be mined any more, until they are in another block;
 * one that can no longer be settled is marked `lost` for review. Results are released already, so jobs keep their state. A
 * failed settlement that succeeds after a reorganization completes its job, or is marked `surplus` for review where
 * another one was charged.
 */
export function watchFinality(dependencies: SettlementWatchDependencies): Sweep {
  const { settlementStore } = dependencies
  return {
    name: 'finalized or moved settlements',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const unjudged = await settlementStore.readFailed('own_key', null, UNJUDGED_BATCH)
      const judged = await recheckFailed(dependencies, unjudged)
      const followed = await followBlocks(dependencies)
      return judged + followed + (await recheckRemoved(dependencies))
    },
  }
}

/**
 * Ends settlements in final blocks, and notes which ones were in blocks that have left the chain: failed ones are judged
 * again at once. Returns how many were ended or judged.
 */
async function followBlocks(dependencies: SettlementWatchDependencies): Promise<number> {
  const { settlementStore, blocks } = dependencies
  const [newest] = await settlementStore.findUnfinalBlocks(0n)
  if (!newest) return 0
  const finalizedNumber = await blocks.readFinalizedNumber()
  const { canonical, replaced } = await sortBlocks(blocks, await settlementStore.findUnfinalBlocks(finalizedNumber))
  const final = canonical.filter(({ number }) => number <= finalizedNumber).map(({ hash }) => hash)
  const finalized = await settlementStore.markFinal(final)
  const [firstReplaced] = replaced
  if (!firstReplaced) return finalized
  await settlementStore.removeFromBlocks(replaced.map(({ hash }) => hash))
  const failed = await settlementStore.readFailed('own_key', firstReplaced.number, BATCH)
  return finalized + (await recheckFailed(dependencies, failed))
}

/**
 * Splits settled blocks into those still on the chain and those that left it, both in order. One above the newest block
 * has left it too: where nothing else is mined, the chain stays shorter until the settlement is sent again.
 */
async function sortBlocks(
  blocks: BlockReader,
  settled: readonly SettledBlock[],
): Promise<{ canonical: readonly SettledBlock[]; replaced: readonly SettledBlock[] }> {
  const ordered = [...settled].sort((one, other) => (one.number < other.number ? -1 : 1))
  const hashes = await Promise.all(ordered.map(({ number }) => blocks.readHash(number)))
  return {
    canonical: ordered.filter(({ hash }, index) => hash === hashes[index]),
    replaced: ordered.filter(({ hash }, index) => hash !== hashes[index]),
  }
}

/** Rechecks settlements whose block has left the chain. Returns how many were moved, signed again or lost. */
async function recheckRemoved(dependencies: SettlementWatchDependencies): Promise<number> {
  let moved = 0
  for (const settlement of await dependencies.settlementStore.readRemoved(BATCH))
    if (await recheckSettlement(dependencies, settlement)) moved += 1
  return moved
}

/** Judges failed settlements again. Returns how many were judged, reopened or found to be surplus. */
async function recheckFailed(
  { settlementStore, settler, logger }: SettlementWatchDependencies,
  failed: readonly FailedSettlement[],
): Promise<number> {
  let changed = 0
  for (const { settlementId, jobId, authorization, chargeAmount, transactions } of failed) {
    const evidence = await settler.readEvidence(authorization, sendersOf(transactions))
    const statuses = await readStatuses(settler, transactions, authorization, chargeAmount)
    const verdict = judgeSettlement(statuses, evidence.outcome === 'read' ? evidence : null, authorization.deadline)
    switch (verdict.verdict) {
      case 'settled': {
        const { blockNumber, blockHash } = verdict.confirmation
        const transactionHash = verdict.transaction.hash
        await reopenSettlement(
          { settlementStore, logger },
          { settlementId, jobId },
          { transactionHash, blockNumber, blockHash },
        )
        changed += 1
        break
      }
      case 'uncollectable':
      case 'nonce_used_elsewhere':
      case 'batch_reverted':
        await settlementStore.judgeFailed(settlementId, verdict.judgedAt)
        changed += 1
        break
      // Not sent again: its payer was notified. It is watched as long as it may be mined without us.
      case 'open':
        await settlementStore.judgeFailed(settlementId, null)
        break
      case 'transfer_missing':
      case 'unexplained':
        logger.error('a failed settlement is contradicted by the chain', { jobId, reason: verdict.verdict })
        await settlementStore.judgeFailed(settlementId, null)
    }
  }
  return changed
}

/** Judges a settlement again and resends it if needed. Returns whether it was moved, signed again or lost. */
async function recheckSettlement(
  dependencies: SettlementWatchDependencies,
  settlement: RemovedSettlement,
): Promise<boolean> {
  const { settlementStore, settler, logger } = dependencies
  const { settlementId, jobId, authorization, chargeAmount, blockNumber: earlierNumber, transactions } = settlement
  const evidence = await settler.readEvidence(authorization, sendersOf(transactions))
  const statuses = await readStatuses(settler, transactions, authorization, chargeAmount)
  const verdict = judgeSettlement(statuses, evidence.outcome === 'read' ? evidence : null, authorization.deadline)
  switch (verdict.verdict) {
    case 'settled': {
      const { blockNumber, blockHash } = verdict.confirmation
      const transactionHash = verdict.transaction.hash
      await settlementStore.moveSettlement(settlementId, { transactionHash, blockNumber, blockHash })
      // The node may only have lagged.
      if (transactionHash === settlement.transactionHash && blockNumber === earlierNumber) return false
      logger.warn('a settlement moved to another block', { jobId })
      return true
    }
    case 'uncollectable':
      if (!(await settlementStore.loseSettlement(settlementId, verdict.reason, transactions))) return false
      logger.error('a settlement was lost in a reorganization', { jobId, reason: verdict.reason })
      return true
    case 'open': {
      await settler.broadcast(transactionToSend(settlement))
      logger.warn('a settlement was removed from the chain and sent again', { jobId })
      return false
    }
    case 'nonce_used_elsewhere':
    case 'batch_reverted':
      await recordRevertedBatches(settlementStore, statuses)
      return await signReleasedAgain(dependencies, settlement, verdict)
    // Rechecked until the deadline has passed.
    case 'transfer_missing':
    case 'unexplained':
      logger.error('a settlement was removed from the chain and cannot be sent again', {
        jobId,
        reason: verdict.verdict,
      })
      return false
  }
}

/**
 * Returns the transaction that the receipt names: a replacement would settle too, but the receipt would not lead to it. If
 * it was signed for an account nonce that is used by now, the newest one.
 */
function transactionToSend({ transactionHash, transactions }: RemovedSettlement): StoredTransaction {
  const [newest] = transactions
  if (!newest) throw new Error('a settlement of a key has transactions')
  const isForItsNonce = ({ sender, accountNonce }: StoredTransaction) =>
    sender === newest.sender && accountNonce === newest.accountNonce
  return transactions.find((signed) => signed.hash === transactionHash && isForItsNonce(signed)) ?? newest
}
