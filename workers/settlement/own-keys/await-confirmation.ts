import type { LimitFunction } from 'p-limit'
import type { ChainEvent, Following } from '#shared/chain/reading/block-watch.ts'
import type { LeasedJob, SealedResult, StoredSettlement } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { GasSpent, SettlementEvidence } from '#shared/payment/facilitator.ts'
import type { StepContext } from '../../job/step-outcome.ts'
import type { KeySettlementDependencies } from '../dependencies.ts'
import { judgeSettlement, type Verdict } from './judge-settlement.ts'
import {
  gasOfReverts,
  readStatuses,
  recordRevertedBatches,
  sendersOf,
  type TransactionStatus,
} from './read-statuses.ts'

export interface ConfirmationDependencies extends KeySettlementDependencies {
  /** Limits how many settlements are read from the chain concurrently: a block may bring news of a thousand. */
  readonly limitReads: LimitFunction
}

/** How long one run watches before it releases the job; several blocks. */
const WATCH_MS = 20_000
/** Longer than a block of Base, so that a settlement that is mined in the next one is read once. */
const RECEIPT_POLL_MS = 2500
/**
 * Pause before a transaction that no node accepted is sent again: every later account nonce waits for it. Each further one
 * is twice as long, up to the time between two looks at receipts.
 */
const RESEND_MS = 500
/** Pause before another look at a listed transaction without a receipt: the node that answered is behind. */
const RECHECK_MS = 250
const RECHECKS = 8
/** A settlement that takes longer than a block or two is late, and evidence is read in addition to its receipts. */
const EVIDENCE_AFTER_MS = 5000
/** After the node reports a used account nonce, the receipt appears within moments unless something is wrong. */
const EVIDENCE_AFTER_USED_NONCE_MS = 300
/** After a batch was given up, a filler uses its account nonce within a few blocks. */
const EVIDENCE_AFTER_REFUSAL_MS = 1000
/** How long evidence may contradict itself; a node behind a load balancer catches up within this time. */
const UNEXPLAINED_MS = 8000
const EVIDENCE_WHILE_UNEXPLAINED_MS = 1000

export interface JudgedSettlement {
  readonly settlement: StoredSettlement
  readonly verdict: Verdict
  /** What transactions cost in which this payment failed; `null` when there are none. */
  readonly gas: GasSpent | null
}

/** What one run has seen of its settlement. */
interface Watch {
  readonly job: LeasedJob
  readonly chargeAmount: AtomicAmount
  readonly startedAt: number
  readonly following: Following
  /** Hashes of the transactions that a node accepted. */
  readonly sent: Set<string>
  /** How long the newest transaction waits until it is sent again, while no node accepts it. */
  resendMs: number
  /** Whether the nodes' pools had no room for it: only a block makes room. */
  isPoolFull: boolean
  settlement: StoredSettlement
  /** When evidence is read next. */
  evidenceAt: number
  unexplainedSince: number | null
  /** How often a listed transaction without a receipt is still looked at soon. */
  rechecks: number
  /** Whether a transaction is in a block that is not deep enough. */
  isMined: boolean
}

/**
 * Sends the newest transaction of a settlement and follows all of them until a verdict is reached or the time is up.
 * Gives up the job's place once it is sent. Receipts are read when a new block lists one of the transactions, and now
 * and then in any case; the head of the chain is polled for all settlements of the process together. Returns `null`
 * when the lease is lost.
 */
export async function awaitConfirmation(
  dependencies: ConfirmationDependencies,
  job: LeasedJob,
  { chargeAmount }: SealedResult,
  { signal, releaseSlot }: StepContext,
): Promise<JudgedSettlement | null> {
  const { settlementStore, blockWatch, batches, limitReads, unaskedMs = RECEIPT_POLL_MS } = dependencies
  const startedAt = performance.now()
  const settlement = job.settlement ?? (await settlementStore.readSettlement(job))
  const watch: Watch = {
    job,
    chargeAmount,
    startedAt,
    following: blockWatch.follow(hashesOf(settlement)),
    sent: new Set(),
    resendMs: RESEND_MS,
    isPoolFull: false,
    settlement,
    // Not before the receipts are read for the first time without news.
    evidenceAt: startedAt + Math.max(EVIDENCE_AFTER_MS, unaskedMs),
    unexplainedSince: null,
    rechecks: 0,
    isMined: false,
  }
  const stopFollowing = settlement.batch ? batches.follow(settlement.batch.id) : () => undefined
  try {
    await sendNewest(dependencies, watch)
    releaseSlot()
    // A settlement of an earlier run may be on chain already, and so may a new one where blocks are mined immediately.
    const isAskedAtOnce = !job.settlement || blockWatch.minesImmediately()
    let event: ChainEvent = isAskedAtOnce ? 'moved' : await nextEvent(dependencies, watch, signal, true)
    let justSent = isAskedAtOnce && job.settlement !== null
    while (event !== 'aborted') {
      watch.rechecks = event === 'listed' ? RECHECKS : Math.max(0, watch.rechecks - 1)
      const judged = await limitReads(() => readAndJudge(dependencies, watch))
      if (judged) return judged
      if (!justSent) await sendNewest(dependencies, watch)
      event = await nextEvent(dependencies, watch, signal, justSent)
      justSent = false
    }
    return null
  } finally {
    watch.following.stop()
    stopFollowing()
  }
}

/** Sends the newest transaction unless a node has accepted it. A batch that none accepts for its size is given up. */
async function sendNewest({ settler, batches, logger }: ConfirmationDependencies, watch: Watch): Promise<void> {
  const { batch, transactions } = watch.settlement
  const [newest] = transactions
  if (!newest || watch.sent.has(newest.hash)) return
  const answer = await settler.broadcast(newest)
  watch.isPoolFull = answer.outcome === 'pool_full'
  // Counted by node; the settlements of a key meet it together.
  if (answer.outcome === 'pool_full') return
  if (answer.outcome === 'unreachable' || (answer.outcome === 'too_large' && !batch)) {
    logger.warn('no response to a broadcast', { jobId: watch.job.id, error: answer.cause })
    return
  }
  if (answer.outcome === 'too_large' && batch) await batches.refuse(batch.id)
  watch.sent.add(newest.hash)
  if (answer.outcome === 'account_nonce_used') readEvidenceIn(watch, EVIDENCE_AFTER_USED_NONCE_MS)
  if (answer.outcome === 'too_large') readEvidenceIn(watch, EVIDENCE_AFTER_REFUSAL_MS)
}

function readEvidenceIn(watch: Watch, pauseMs: number): void {
  watch.evidenceAt = Math.min(watch.evidenceAt, performance.now() + pauseMs)
}

/** Waits until the settlement may have changed, or must be looked at or sent again. */
async function nextEvent(
  { unaskedMs = RECEIPT_POLL_MS }: ConfirmationDependencies,
  watch: Watch,
  signal: AbortSignal,
  justSent: boolean,
): Promise<ChainEvent> {
  const { settlement, sent, rechecks, evidenceAt, isMined, isPoolFull, following } = watch
  const [newest] = settlement.transactions
  const isSent = newest === undefined || sent.has(newest.hash)
  const resendMs = isSent || isPoolFull ? unaskedMs : watch.resendMs
  if (!isSent) watch.resendMs = Math.min(2 * watch.resendMs, unaskedMs)
  const pause = Math.min(unaskedMs, resendMs, rechecks > 0 ? RECHECK_MS : unaskedMs)
  const longestMs = Math.max(1, Math.min(pause, evidenceAt - performance.now()))
  return await following.next({ longestMs, signal, everyBlock: isMined || isPoolFull, justSent })
}

/** Reads the transactions, with evidence when it is due. Returns `null` while the watch goes on. */
async function readAndJudge(dependencies: ConfirmationDependencies, watch: Watch): Promise<JudgedSettlement | null> {
  const { settlementStore, settler } = dependencies
  const { job, chargeAmount, startedAt } = watch
  const { authorization } = job
  let evidence: SettlementEvidence | null = null
  if (performance.now() >= watch.evidenceAt) {
    evidence = await settler.readEvidence(authorization, sendersOf(watch.settlement.transactions))
    watch.evidenceAt = performance.now() + EVIDENCE_AFTER_MS
  }
  // Read after the evidence: a replacement signed in the meantime may be the transaction that was mined.
  if (evidence || performance.now() - startedAt >= EVIDENCE_AFTER_MS) {
    watch.settlement = await settlementStore.readSettlement(job)
    watch.following.setTransactions(hashesOf(watch.settlement))
  }
  const statuses = await readStatuses(settler, watch.settlement.transactions, authorization, chargeAmount)
  watch.isMined = statuses.some(isInBlock)
  if (watch.isMined) watch.rechecks = 0
  const { settlement } = watch
  const gas = gasOfReverts(statuses)
  const verdict = judgeSettlement(statuses, evidence?.outcome === 'read' ? evidence : null, authorization.deadline)
  if (verdict.verdict !== 'open') await recordRevertedBatches(settlementStore, statuses)
  if (verdict.verdict === 'unexplained') {
    watch.unexplainedSince ??= performance.now()
    if (performance.now() - watch.unexplainedSince >= UNEXPLAINED_MS) return { settlement, verdict, gas }
    watch.evidenceAt = performance.now() + EVIDENCE_WHILE_UNEXPLAINED_MS
  } else if (verdict.verdict !== 'open') {
    return { settlement, verdict, gas }
  } else if (evidence?.outcome === 'read') {
    watch.unexplainedSince = null
  } else if (evidence === null && statuses.some(isRevertedBatch)) {
    // Evidence decides whether it is signed again.
    readEvidenceIn(watch, 0)
  }
  return performance.now() - startedAt >= WATCH_MS ? { settlement, verdict: { verdict: 'open' }, gas } : null
}

function hashesOf({ transactions }: StoredSettlement): readonly `0x${string}`[] {
  return transactions.map(({ hash }) => hash)
}

function isRevertedBatch({ confirmation }: TransactionStatus): boolean {
  return confirmation.outcome === 'batch_reverted'
}

function isInBlock({ confirmation }: TransactionStatus): boolean {
  return confirmation.outcome === 'pending' && confirmation.isMined === true
}
