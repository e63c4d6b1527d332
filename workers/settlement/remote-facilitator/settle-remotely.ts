import type { LeasedJob } from '#shared/jobs/job.ts'
import type { EarlierSettlement } from '#shared/ledger/settlement/earlier-settlements.ts'
import type { JudgedBlock } from '#shared/ledger/settlement/end-settlement.ts'
import type { RemoteSettlement } from '#shared/ledger/settlement/remote-settlement.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import {
  type Ending,
  finished,
  moved,
  type SettlementSteps,
  type StepContext,
  type StepOutcome,
} from '../../job/step-outcome.ts'
import type { RemoteSettlementDependencies } from '../dependencies.ts'
import {
  completeSettlement,
  EXPIRING,
  failSettlement,
  isMediaExpiring,
  type MinedTransfer,
  requireSealed,
  withholdExpiring,
} from '../finish-settlement.ts'
import { type EarlierCharge, lookUpEarlier } from '../look-up-earlier.ts'

/** Delay before the next attempt while the chain or the facilitator makes no progress. */
const RETRY_MS = 1000
/** After a request without a response, two blocks are awaited before the next request, which might cost gas twice. */
const REQUEST_AGAIN_AFTER_MS = 5000
/** A reported transaction gets more time: the facilitator may still be raising its fee. */
const REQUEST_AGAIN_WITH_HASH_MS = 60_000
/** A lagging node may show the used nonce before the transfer; after this time a person must review it. */
const UNEXPLAINED_FOR_MS = 30_000
/** How long one run polls a reported transaction before it releases the job; several blocks. */
const WATCH_MS = 20_000
const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 1000
const ENDINGS = {
  expired: 'the authorization expired before the facilitator settled it',
  burned: 'the payer invalidated the nonce',
} as const
/** Delay for a job that was recorded with a settlement key; only a worker with that key can settle it. */
const OWN_KEY_RETRY_MS = 30_000

/**
 * Settles through a remote facilitator: records the settlement, requests it until it succeeds, and trusts only the
 * chain.
 */
export function createRemoteSettlement(dependencies: RemoteSettlementDependencies): SettlementSteps {
  return {
    recordSettlement: (job) => recordSettlement(dependencies, job),
    settleCharge: (job, context) => settleCharge(dependencies, job, context),
  }
}

/**
 * Moves generated → settling: stores what the facilitator will be asked to settle, without asking yet. Settlements of
 * the job's earlier authorizations are looked up first: a reorganization may have let one of them succeed.
 */
async function recordSettlement(dependencies: RemoteSettlementDependencies, job: LeasedJob): Promise<StepOutcome> {
  const { settlementStore, facilitator, logger } = dependencies
  const earlier = await lookUpEarlier(dependencies, job, (settlement) => findEarlierCharge(facilitator, settlement))
  if (earlier.outcome === 'decided') return earlier.step
  const first = await facilitator.readFirstBlock()
  if (first.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: first.cause })
    return later('the payment network cannot be reached', 'withhold')
  }
  const { chargeAmount } = requireSealed(job)
  const written = await settlementStore.recordRemoteSettlement(job, { chargeAmount, recordedBlock: first.blockNumber })
  return moved(written, { ...job, state: 'settling' })
}

/** Moves settling → completed: looks for the outcome of earlier requests on chain before it sends another one. */
async function settleCharge(
  dependencies: RemoteSettlementDependencies,
  job: LeasedJob,
  context: StepContext,
): Promise<StepOutcome> {
  const settlement = await dependencies.settlementStore.readRemoteSettlement(job)
  if (!settlement) {
    dependencies.logger.error('a settlement needs a worker with its settlement key', { jobId: job.id })
    return later('recorded for a settlement key of our own', 'review', OWN_KEY_RETRY_MS)
  }
  const reported = await readReported(dependencies, job, settlement)
  if (reported.outcome === 'confirmed') return completeSettlement(dependencies, job, settlement.settlementId, reported)
  // Without an earlier request there is nothing to find on chain.
  if (settlement.sinceRequestMs === null) return requestSettlement(dependencies, job, settlement, context)
  const ended = await finishFromChain(dependencies, job, settlement)
  if (ended) return ended
  if (reported.outcome === 'reverted' && settlement.unansweredRequests === 0)
    return failSettlement(dependencies, job, 'every transaction of the facilitator reverted', reported.judgedAt)
  const patienceMs = reported.outcome === 'pending' ? REQUEST_AGAIN_WITH_HASH_MS : REQUEST_AGAIN_AFTER_MS
  if (settlement.sinceRequestMs < patienceMs) return later('settlement pending')
  return requestSettlement(dependencies, job, settlement, context)
}

/** Requests the settlement. The request is stored before it is sent, so a crash leaves it as unanswered. */
async function requestSettlement(
  dependencies: RemoteSettlementDependencies,
  job: LeasedJob,
  settlement: RemoteSettlement,
  context: StepContext,
): Promise<StepOutcome> {
  const { settlementStore, facilitator, logger } = dependencies
  const { settlementId, unansweredRequests, hashes } = settlement
  // An earlier request may still succeed; then only the deadline is final.
  const mayBeSent = unansweredRequests > 0 || hashes.length > 0
  if (isMediaExpiring(dependencies, job)) return mayBeSent ? later(EXPIRING) : withholdExpiring(dependencies, job)
  if ((await settlementStore.recordSettlementRequest(job, settlementId)) === 'stale') return { next: 'stale' }
  const answer = await facilitator.settle(job.authorization, requireSealed(job).chargeAmount)
  if (answer.outcome === 'unknown') {
    logger.warn('no response to a settlement request', { jobId: job.id, error: answer.cause })
    return later('the outcome of the settlement request is unknown')
  }
  const hash = answer.outcome === 'sent' ? answer.hash : null
  if ((await settlementStore.recordSettlementAnswer(job, settlementId, hash)) === 'stale')
    return later('the response was not stored')
  if (answer.outcome === 'sent') {
    context.releaseSlot()
    const mined = await awaitTransfer(dependencies, job, answer.hash, context.signal)
    if (mined === 'lease_lost') return { next: 'stale' }
    return mined ? completeSettlement(dependencies, job, settlement.settlementId, mined) : later('settlement pending')
  }
  logger.warn('settlement request refused', { jobId: job.id, reason: answer.reason })
  const reason = `the facilitator did not settle: ${answer.reason}`
  if (mayBeSent) return later(reason)
  return answer.outcome === 'refused' ? failSettlement(dependencies, job, answer.code) : later(reason, 'withhold')
}

/**
 * Reads the transactions that the facilitator reported. A wrong hash proves nothing, not even that nothing was sent.
 */
async function readReported(
  { facilitator }: RemoteSettlementDependencies,
  job: LeasedJob,
  { hashes }: RemoteSettlement,
): Promise<MinedTransfer | { outcome: 'pending' | 'none' } | { outcome: 'reverted'; judgedAt: JudgedBlock }> {
  const reverts: JudgedBlock[] = []
  for (const hash of hashes) {
    const confirmation = await facilitator.confirm(hash, job.authorization, requireSealed(job).chargeAmount)
    if (confirmation.outcome === 'confirmed') return { ...confirmation, hash }
    if (confirmation.outcome === 'reverted')
      reverts.push({ number: confirmation.blockNumber, hash: confirmation.blockHash })
  }
  const [judgedAt] = reverts.toSorted((one, other) => (one.number > other.number ? -1 : 1))
  if (judgedAt && reverts.length === hashes.length) return { outcome: 'reverted', judgedAt }
  return { outcome: hashes.length === 0 ? 'none' : 'pending' }
}

/** Finishes the settlement if the chain has decided it; returns `null` while it can still be settled. */
async function finishFromChain(
  dependencies: RemoteSettlementDependencies,
  job: LeasedJob,
  settlement: RemoteSettlement,
): Promise<StepOutcome | null> {
  const { chargeAmount } = requireSealed(job)
  const finding = await dependencies.facilitator.find(job.authorization, chargeAmount, settlement.recordedBlock)
  switch (finding.outcome) {
    case 'open':
      return null
    case 'found':
      return completeSettlement(dependencies, job, settlement.settlementId, { ...finding, outcome: 'confirmed' })
    case 'expired':
    case 'burned': {
      const judgedAt = { number: finding.blockNumber, hash: finding.blockHash }
      return failSettlement(dependencies, job, ENDINGS[finding.outcome], judgedAt)
    }
    case 'unexplained':
      return (settlement.sinceRequestMs ?? 0) < UNEXPLAINED_FOR_MS
        ? later('the nonce is used, and its transfer is not found yet')
        : finished(await dependencies.settlementStore.markForReview(job, 'the nonce is used, and no transfer is found'))
    case 'unreachable':
      dependencies.logger.warn('payment network unreachable', { jobId: job.id, error: finding.cause })
      return later('the payment network cannot be reached')
  }
}

/** Follows a reported transaction. Returns `null` when it fails or the time is up. */
async function awaitTransfer(
  { facilitator, blockWatch }: RemoteSettlementDependencies,
  job: LeasedJob,
  hash: `0x${string}`,
  signal: AbortSignal,
): Promise<MinedTransfer | 'lease_lost' | null> {
  const { chargeAmount } = requireSealed(job)
  const following = blockWatch.follow([hash])
  try {
    for (let [waited, pause] = [0, FIRST_PAUSE_MS]; waited < WATCH_MS;) {
      const confirmation = await facilitator.confirm(hash, job.authorization, chargeAmount)
      if (confirmation.outcome === 'confirmed') return { ...confirmation, hash }
      if (confirmation.outcome !== 'pending' && confirmation.outcome !== 'unreachable') return null
      const everyBlock = confirmation.outcome === 'pending' && confirmation.isMined === true
      const event = await following.next({ longestMs: pause, signal, everyBlock })
      if (event === 'aborted') return 'lease_lost'
      if (event !== 'elapsed') continue
      waited += pause
      pause = longer(pause)
    }
    return null
  } finally {
    following.stop()
  }
}

function longer(pause: number): number {
  return Math.min(pause * 2, LONGEST_PAUSE_MS)
}

/** Defers a settlement. Once it was requested, only a person may end it: a transaction may be on its way. */
function later(reason: string, ending: Ending = 'review', delayMs = RETRY_MS): StepOutcome {
  return { next: 'later', delayMs, reason, ending }
}

/**
 * Determines from the chain whether an earlier settlement charged the payer. Of an open authorization only the
 * transactions that the facilitator named are known: one that is not mined yet is `unclear`.
 */
async function findEarlierCharge(
  facilitator: RemoteFacilitator,
  { known, authorization, chargeAmount, transactions, firstBlock }: EarlierSettlement,
): Promise<EarlierCharge> {
  if (known === 'charged') return 'charged'
  if (known === 'failed_finally') return 'failed'
  const finding = await facilitator.find(authorization, chargeAmount, firstBlock)
  switch (finding.outcome) {
    case 'found':
      return 'charged'
    case 'expired':
    case 'burned':
      return 'failed'
    case 'unexplained':
    case 'unreachable':
      return 'unclear'
    case 'open': {
      const outcomes = await Promise.all(
        transactions.map(async ({ hash }) => (await facilitator.confirm(hash, authorization, chargeAmount)).outcome),
      )
      if (outcomes.includes('confirmed')) return 'charged'
      return outcomes.every((outcome) => outcome === 'reverted' || outcome === 'transfer_missing')
        ? 'failed'
        : 'unclear'
    }
  }
}
