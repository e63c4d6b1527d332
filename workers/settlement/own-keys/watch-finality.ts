import type { SettledBlock, SettlementStore, UnfinalSettlement } from '#shared/jobs/settlement-store.ts'
import type { BlockReader } from '#shared/payment/block-reader.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import { judgeSettlement, type TransactionStatus } from './judge-settlement.ts'

export interface FinalityDependencies {
  readonly settlements: Pick<
    SettlementStore,
    'findUnfinalBlocks' | 'readUnfinal' | 'markFinal' | 'moveSettlement' | 'loseSettlement'
  >
  readonly settler: Pick<Settler, 'broadcast' | 'confirm' | 'readEvidence'>
  readonly blocks: BlockReader
  readonly logger: Logger
}

/** Two calls and one for each of the newest settled blocks; a reorganisation is noticed within this time. */
export const FINALITY_LOOK_MS = 5000
const BATCH = 200

/**
 * Looks after confirmed settlements until their block is final. What a reorganisation took out of the chain is sent again; what
 * cannot be settled any more is `lost`, for a person to look at. Results were released, so the jobs stay as they are.
 */
export function watchFinality(dependencies: FinalityDependencies): Sweep {
  const { settlements, blocks } = dependencies
  return {
    name: 'settlements became final or moved',
    leastIntervalMs: FINALITY_LOOK_MS,
    run: async () => {
      const [newest] = await settlements.findUnfinalBlocks(0n)
      if (!newest) return 0
      const finalizedNumber = await blocks.readFinalizedNumber()
      const { standing, replaced } = await sortBlocks(blocks, await settlements.findUnfinalBlocks(finalizedNumber))
      const final = standing.filter(({ number }) => number <= finalizedNumber).flatMap(({ hash }) => hash ?? [])
      const finalized = await settlements.markFinal(final)
      const [firstReplaced] = replaced
      return firstReplaced ? finalized + (await lookAgain(dependencies, firstReplaced)) : finalized
    },
  }
}

async function sortBlocks(
  blocks: BlockReader,
  settled: readonly SettledBlock[],
): Promise<{ standing: readonly SettledBlock[]; replaced: readonly SettledBlock[] }> {
  const ordered = [...settled].sort((one, other) => (one.number < other.number ? -1 : 1))
  const hashes = await Promise.all(ordered.map(({ number }) => blocks.readHash(number)))
  return {
    standing: ordered.filter(({ hash }, index) => hash !== null && hash === hashes[index]),
    replaced: ordered.filter(({ hash }, index) => hash === null || hash !== hashes[index]),
  }
}

/** Everything from the first replaced block on may have gone with it. */
async function lookAgain(dependencies: FinalityDependencies, { number }: SettledBlock): Promise<number> {
  const { settlements } = dependencies
  let moved = 0
  for (const settlement of await settlements.readUnfinal(number, BATCH))
    if (await lookForSettlement(dependencies, settlement)) moved += 1
  return moved
}

async function lookForSettlement(
  { settlements, settler, logger }: FinalityDependencies,
  { settlementId, jobId, authorization, chargeAmount, block, transactionHash, transactions }: UnfinalSettlement,
): Promise<boolean> {
  const evidence = await settler.readEvidence(authorization)
  const statuses: TransactionStatus[] = []
  for (const transaction of transactions)
    statuses.push({ transaction, confirmation: await settler.confirm(transaction.hash, authorization, chargeAmount) })
  const verdict = judgeSettlement(statuses, evidence.outcome === 'read' ? evidence : null, authorization.deadline)
  switch (verdict.verdict) {
    case 'collected': {
      const { blockNumber, blockHash } = verdict.confirmation
      if (blockHash === block.hash) return false
      await settlements.moveSettlement(settlementId, {
        transactionHash: verdict.transaction.hash,
        blockNumber,
        blockHash,
      })
      logger.warn('a settlement is in another block now', { jobId })
      return true
    }
    case 'uncollectable':
      await settlements.loseSettlement(settlementId, verdict.reason)
      logger.error('a settlement was lost to a reorganisation of the chain', { jobId, reason: verdict.reason })
      return true
    case 'open': {
      // Its receipt names this one; a replacement would settle as well, but who kept the receipt would not find it by that.
      const released = transactions.find(({ hash }) => hash === transactionHash) ?? transactions[0]
      if (released) await settler.broadcast(released)
      logger.warn('a settlement was taken out of the chain and sent again', { jobId })
      return false
    }
    // Signing again needs the job's fence, which no worker has any more. It stays here until its deadline has passed.
    case 'nonce_used_elsewhere':
    case 'transfer_missing':
    case 'unexplained':
      logger.error('a settlement was taken out of the chain and cannot be sent again', {
        jobId,
        reason: verdict.verdict,
      })
      return false
  }
}
