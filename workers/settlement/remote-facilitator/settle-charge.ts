import { setTimeout as delay } from 'node:timers/promises'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { RemoteSettlement, RemoteSettlementStore } from '#shared/jobs/remote-settlement-store.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { finished, moved, type StepOutcome } from '../../job/step-outcome.ts'
import {
  completeSettlement,
  type FinishSettlementDependencies,
  failSettlement,
  type MinedTransfer,
  requireSealed,
} from '../finish-settlement.ts'
import type { SettlementSteps } from '../settlement-steps.ts'

export interface RemoteSettlementDependencies extends FinishSettlementDependencies {
  readonly store: FinishSettlementDependencies['store'] & RemoteSettlementStore & Pick<ExecutionStore, 'markForReview'>
  readonly facilitator: RemoteFacilitator
  readonly logger: Logger
}

/** Between looks at a chain or a facilitator that does not go on. */
const RETRY_MS = 1000
/** After an answer that never came the chain is watched first: two of its blocks, so that nothing is paid for twice in gas. */
const ASK_AGAIN_AFTER_MS = 5000
/** A named transaction is given longer: the facilitator itself may still be raising its fee. */
const ASK_AGAIN_BESIDE_HASH_MS = 60_000
/** A node that is behind may show the nonce before the transfer; what stays unexplained for longer needs a person. */
const UNEXPLAINED_FOR_MS = 30_000
/** How long one run watches a named transaction before it gives the job back; long enough for several blocks. */
const WATCH_MS = 20_000
const FIRST_LOOK_MS = 20
const LONGEST_PAUSE_MS = 1000
/** Recorded by a worker with keys of its own; only such a worker can go on. */
const OTHER_WAY_RETRY_MS = 30_000

/** Collects through a remote facilitator: recorded first, asked for as often as it takes, believed only from the chain. */
export function createRemoteSettlement(dependencies: RemoteSettlementDependencies): SettlementSteps {
  return {
    recordSettlement: (job) => recordSettlement(dependencies, job),
    settleCharge: (job) => settleCharge(dependencies, job),
  }
}

/** generated → settling: fixes what the facilitator will be asked for. It is not asked yet. */
async function recordSettlement(
  { store, facilitator, logger }: RemoteSettlementDependencies,
  job: ClaimedJob,
): Promise<StepOutcome> {
  const first = await facilitator.readFirstBlock()
  if (first.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: first.cause })
    return later('the payment network cannot be reached')
  }
  const { chargeAmount } = requireSealed(job)
  const written = await store.recordRemoteSettlement(job, { chargeAmount, recordedBlock: first.blockNumber })
  return moved(written, { ...job, state: 'settling' })
}

/** settling → completed: what was asked for before is looked for on chain first; only then is it asked for (again). */
async function settleCharge(dependencies: RemoteSettlementDependencies, job: ClaimedJob): Promise<StepOutcome> {
  const settlement = await dependencies.store.readRemoteSettlement(job)
  if (!settlement) {
    dependencies.logger.error('a settlement waits for a worker with its settlement key', { jobId: job.id })
    return { next: 'later', delayMs: OTHER_WAY_RETRY_MS, reason: 'recorded for a settlement key of our own' }
  }
  const known = await readKnown(dependencies, job, settlement)
  if (known.outcome === 'confirmed') return completeSettlement(dependencies, job, settlement.settlementId, known)
  // Nobody was asked yet, so the chain has nothing to tell.
  if (settlement.sinceRequestMs === null) return request(dependencies, job, settlement)
  const ended = await readEnd(dependencies, job, settlement)
  if (ended) return ended
  if (known.outcome === 'reverted' && settlement.unansweredRequests === 0)
    return failSettlement(dependencies, job, 'every transaction of the facilitator was reverted')
  const patienceMs = known.outcome === 'pending' ? ASK_AGAIN_BESIDE_HASH_MS : ASK_AGAIN_AFTER_MS
  if (settlement.sinceRequestMs < patienceMs) return later('settlement pending')
  return request(dependencies, job, settlement)
}

/** Asks for the charge. The request is on record before it is sent, so a crash leaves it as unanswered. */
async function request(
  dependencies: RemoteSettlementDependencies,
  job: ClaimedJob,
  settlement: RemoteSettlement,
): Promise<StepOutcome> {
  const { store, facilitator, logger } = dependencies
  const { settlementId, unansweredRequests, hashes } = settlement
  if ((await store.noteSettlementRequest(job, settlementId)) === 'stale') return { next: 'stale' }
  const answer = await facilitator.settle(job.authorization, requireSealed(job).chargeAmount)
  if (answer.outcome === 'unknown') {
    logger.warn('settlement request not answered', { jobId: job.id, error: answer.cause })
    return later('the outcome of the settlement request is unknown')
  }
  const hash = answer.outcome === 'sent' ? answer.hash : null
  if ((await store.noteSettlementAnswer(job, settlementId, hash)) === 'stale') return later('the answer is not kept')
  if (answer.outcome === 'sent') {
    const mined = await watch(dependencies, job, answer.hash)
    return mined ? completeSettlement(dependencies, job, settlement.settlementId, mined) : later('settlement pending')
  }
  logger.warn('settlement request refused', { jobId: job.id, reason: answer.reason })
  // An earlier request may still come through; then only the deadline ends it.
  const isFinal = answer.outcome === 'refused' && unansweredRequests === 0 && hashes.length === 0
  return isFinal
    ? failSettlement(dependencies, job, answer.code)
    : later(`the facilitator did not settle: ${answer.reason}`)
}

/** What became of the transactions that the facilitator named. A wrong hash proves nothing, not even that it sent nothing. */
async function readKnown(
  { facilitator }: RemoteSettlementDependencies,
  job: ClaimedJob,
  { hashes }: RemoteSettlement,
): Promise<MinedTransfer | { outcome: 'pending' } | { outcome: 'none' } | { outcome: 'reverted' }> {
  let isReverted = hashes.length > 0
  for (const hash of hashes) {
    const confirmation = await facilitator.confirm(hash, job.authorization, requireSealed(job).chargeAmount)
    if (confirmation.outcome === 'confirmed') return { ...confirmation, hash }
    isReverted &&= confirmation.outcome === 'reverted'
  }
  if (isReverted) return { outcome: 'reverted' }
  return { outcome: hashes.length === 0 ? 'none' : 'pending' }
}

/** How the chain itself ended the settlement; `null` while it can still be collected. */
async function readEnd(
  dependencies: RemoteSettlementDependencies,
  job: ClaimedJob,
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
      return failSettlement(dependencies, job, 'the authorization expired before the facilitator settled it')
    case 'burned':
      return failSettlement(dependencies, job, 'the payer invalidated the nonce')
    case 'unexplained':
      return (settlement.sinceRequestMs ?? 0) < UNEXPLAINED_FOR_MS
        ? later('the nonce is used, its transfer not found yet')
        : finished(await dependencies.store.markForReview(job, 'the nonce is used, and no transfer is found'))
    case 'unreachable':
      dependencies.logger.warn('payment network unreachable', { jobId: job.id, error: finding.cause })
      return later('the payment network cannot be reached')
  }
}

async function watch(
  { facilitator }: RemoteSettlementDependencies,
  job: ClaimedJob,
  hash: `0x${string}`,
): Promise<MinedTransfer | null> {
  const { chargeAmount } = requireSealed(job)
  for (let [waited, pause] = [0, FIRST_LOOK_MS]; waited < WATCH_MS; waited += pause, pause = longer(pause)) {
    const confirmation = await facilitator.confirm(hash, job.authorization, chargeAmount)
    if (confirmation.outcome === 'confirmed') return { ...confirmation, hash }
    if (confirmation.outcome !== 'pending' && confirmation.outcome !== 'unreachable') return null
    await delay(pause)
  }
  return null
}

function longer(pause: number): number {
  return Math.min(pause * 2, LONGEST_PAUSE_MS)
}

function later(reason: string): StepOutcome {
  return { next: 'later', delayMs: RETRY_MS, reason }
}
