import { setTimeout as delay } from 'node:timers/promises'
import type { ClaimedJob, SealedResult, StoredSettlement } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { judgeSettlement, type TransactionStatus, type Verdict } from './judge-settlement.ts'

export interface WatchDependencies {
  readonly store: Pick<ExecutionStore, 'readSettlement'>
  readonly settler: Pick<Settler, 'broadcast' | 'confirm' | 'readEvidence'>
  readonly logger: Logger
}

/** How long one run watches for the transaction before it gives the job back; long enough for several blocks. */
const WATCH_MS = 20_000
/** The first look after sending; where blocks are mined at once it finds the receipt, and its caller waits for nothing else. */
const FIRST_PAUSE_MS = 1
/** So fast that a chain of real blocks is not asked oftener for the early first look. */
const PAUSE_GROWTH = 6
/** Until a settlement is late it is looked for more often than blocks come, since its caller waits. */
const PAUSE_WHILE_FRESH_MS = 250
const LONGEST_PAUSE_MS = 1000
/** A settlement that takes longer than a block or two is late: the rest of the chain is asked about it. */
const EVIDENCE_AFTER_MS = 5000
/** When the node says that the account nonce is used, the receipt is there in a moment, or something is wrong. */
const EVIDENCE_AFTER_USED_NONCE_MS = 300
/** Long enough for a node behind a load balancer to catch up with the others. */
const UNEXPLAINED_MS = 8000
const EVIDENCE_WHILE_UNEXPLAINED_MS = 1000

export interface Watched {
  readonly settlement: StoredSettlement
  readonly verdict: Verdict
}

/**
 * Sends the newest transaction of a settlement and watches all of them until one verdict holds or the time is up. One that
 * was not taken is sent again at each look: every later account nonce waits for it.
 */
export async function awaitConfirmation(
  { store, settler, logger }: WatchDependencies,
  job: ClaimedJob,
  { chargeAmount }: SealedResult,
): Promise<Watched> {
  const { authorization } = job
  const startedAt = performance.now()
  const sent = new Set<string>()
  let settlement = job.settlement ?? (await store.readSettlement(job))
  let evidenceAt = startedAt + EVIDENCE_AFTER_MS
  let unexplainedSince: number | null = null
  const send = async () => {
    const [newest] = settlement.transactions
    if (!newest || sent.has(newest.hash)) return
    const answer = await settler.broadcast(newest)
    if (answer.outcome === 'unreachable') {
      logger.warn('broadcast not answered', { jobId: job.id, error: answer.cause })
      return
    }
    sent.add(newest.hash)
    if (answer.outcome === 'account_nonce_used')
      evidenceAt = Math.min(evidenceAt, performance.now() + EVIDENCE_AFTER_USED_NONCE_MS)
  }
  const readStatuses = async (): Promise<readonly TransactionStatus[]> => {
    const statuses: TransactionStatus[] = []
    for (const transaction of settlement.transactions)
      statuses.push({
        transaction,
        confirmation: await settler.confirm(transaction.hash, authorization, chargeAmount),
      })
    return statuses
  }
  const longestPause = () =>
    performance.now() - startedAt < EVIDENCE_AFTER_MS ? PAUSE_WHILE_FRESH_MS : LONGEST_PAUSE_MS
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * PAUSE_GROWTH, longestPause())) {
    await send()
    await delay(pause)
    let evidence: SettlementEvidence | null = null
    if (performance.now() >= evidenceAt) {
      evidence = await settler.readEvidence(authorization)
      evidenceAt = performance.now() + EVIDENCE_AFTER_MS
    }
    // After the evidence: a replacement that was signed meanwhile may be the one that is mined.
    if (pause === LONGEST_PAUSE_MS || evidence) settlement = await store.readSettlement(job)
    const verdict = judgeSettlement(
      await readStatuses(),
      evidence?.outcome === 'read' ? evidence : null,
      authorization.deadline,
    )
    if (verdict.verdict === 'unexplained') {
      unexplainedSince ??= performance.now()
      if (performance.now() - unexplainedSince >= UNEXPLAINED_MS) return { settlement, verdict }
      evidenceAt = performance.now() + EVIDENCE_WHILE_UNEXPLAINED_MS
    } else if (verdict.verdict !== 'open') {
      return { settlement, verdict }
    } else if (evidence?.outcome === 'read') {
      unexplainedSince = null
    }
    if (performance.now() - startedAt >= WATCH_MS) return { settlement, verdict: { verdict: 'open' } }
  }
}
