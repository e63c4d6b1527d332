import { setTimeout as delay } from 'node:timers/promises'
import type { ClaimedJob, SealedResult, StoredSettlement } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import type { GasSpent, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { gasOfReverts } from './gas-of-reverts.ts'
import { judgeSettlement, type Verdict } from './judge-settlement.ts'
import { readStatuses } from './read-statuses.ts'

export interface ConfirmationDependencies {
  readonly settlementStore: Pick<JobSettlementStore, 'readSettlement'>
  readonly settler: Pick<Settler, 'broadcast' | 'confirm' | 'readEvidence'>
  readonly logger: Logger
}

/** How long one run polls before it releases the job; several blocks. */
const WATCH_MS = 20_000
/** Delay before the first poll: a chain that mines immediately has the receipt by then, and the caller is waiting. */
const FIRST_PAUSE_MS = 1
/** Large enough that the early first poll adds hardly any requests on a chain with real block times. */
const PAUSE_GROWTH = 6
/** Pause until a settlement is late: shorter than a block, since the caller is waiting. */
const PAUSE_WHILE_FRESH_MS = 250
const LONGEST_PAUSE_MS = 1000
/** A settlement that takes longer than a block or two is late, and evidence is read in addition to its receipts. */
const EVIDENCE_AFTER_MS = 5000
/** After the node reports a used account nonce, the receipt appears within moments unless something is wrong. */
const EVIDENCE_AFTER_USED_NONCE_MS = 300
/** How long evidence may contradict itself; a node behind a load balancer catches up within this time. */
const UNEXPLAINED_MS = 8000
const EVIDENCE_WHILE_UNEXPLAINED_MS = 1000

export interface JudgedSettlement {
  readonly settlement: StoredSettlement
  readonly verdict: Verdict
  /** What its reverted transactions cost; `null` when none reverted. */
  readonly gas: GasSpent | null
}

/**
 * Sends the newest transaction of a settlement and polls all of them until a verdict is reached or the time is up. A
 * transaction that no node accepted is sent again with each poll, since every later account nonce waits for it.
 */
export async function awaitConfirmation(
  { settlementStore, settler, logger }: ConfirmationDependencies,
  job: ClaimedJob,
  { chargeAmount }: SealedResult,
): Promise<JudgedSettlement> {
  const { authorization } = job
  const startedAt = performance.now()
  const sent = new Set<string>()
  let settlement = job.settlement ?? (await settlementStore.readSettlement(job))
  let evidenceAt = startedAt + EVIDENCE_AFTER_MS
  let unexplainedSince: number | null = null
  const send = async () => {
    const [newest] = settlement.transactions
    if (!newest || sent.has(newest.hash)) return
    const answer = await settler.broadcast(newest)
    if (answer.outcome === 'unreachable') {
      logger.warn('no response to a broadcast', { jobId: job.id, error: answer.cause })
      return
    }
    sent.add(newest.hash)
    if (answer.outcome === 'account_nonce_used')
      evidenceAt = Math.min(evidenceAt, performance.now() + EVIDENCE_AFTER_USED_NONCE_MS)
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
    // Read after the evidence: a replacement signed in the meantime may be the transaction that was mined.
    if (pause === LONGEST_PAUSE_MS || evidence) settlement = await settlementStore.readSettlement(job)
    const statuses = await readStatuses(settler, settlement.transactions, authorization, chargeAmount)
    const gas = gasOfReverts(statuses)
    const verdict = judgeSettlement(statuses, evidence?.outcome === 'read' ? evidence : null, authorization.deadline)
    if (verdict.verdict === 'unexplained') {
      unexplainedSince ??= performance.now()
      if (performance.now() - unexplainedSince >= UNEXPLAINED_MS) return { settlement, verdict, gas }
      evidenceAt = performance.now() + EVIDENCE_WHILE_UNEXPLAINED_MS
    } else if (verdict.verdict !== 'open') {
      return { settlement, verdict, gas }
    } else if (evidence?.outcome === 'read') {
      unexplainedSince = null
    }
    if (performance.now() - startedAt >= WATCH_MS) return { settlement, verdict: { verdict: 'open' }, gas }
  }
}
