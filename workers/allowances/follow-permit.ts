import type { LimitFunction } from 'p-limit'
import type { PermitSubmitter } from '#shared/chain/allowance/permit-submitter.ts'
import type { BlockWatch, ChainEvent, Following } from '#shared/chain/reading/block-watch.ts'
import type { AllowanceWorkStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { ClaimedPermit, SignedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { judgePermit, needsEvidence, type PermitStatus, type PermitVerdict } from './judge-permit.ts'

export interface FollowPermitDependencies {
  readonly allowanceStore: Pick<
    AllowanceWorkStore,
    'readSignedPermit' | 'renewAllowance' | 'confirmAllowance' | 'failAllowance' | 'requestAgain'
  >
  readonly permits: Pick<PermitSubmitter, 'broadcast' | 'confirm' | 'readEvidence'>
  readonly blockWatch: BlockWatch
  /** Limits how many permits are read from the chain concurrently. */
  readonly limitReads: LimitFunction
  readonly leaseMs: number
  /** Longest time without reading the receipts of a permit, when no block brings event of it. Default 2,500. */
  readonly unaskedMs?: number | undefined
  /** A permit that takes longer is late, and evidence is read in addition to its receipts. Default 5,000. */
  readonly evidenceAfterMs?: number | undefined
  readonly logger: Logger
}

/** How long one run watches before it releases the permit; several blocks. */
const WATCH_MS = 20_000
/** Longer than a block of Base, so that a permit that is mined in the next one is read once. */
const RECEIPT_POLL_MS = 2500
/** Pause before a transaction that no node accepted is sent again: every later account nonce waits for it. */
const RESEND_MS = 500
/** Longer than a block or two. */
const EVIDENCE_AFTER_MS = 5000

/** What one run has seen of its permit. */
interface Watch {
  readonly claim: ClaimedPermit
  readonly startedAt: number
  readonly following: Following
  readonly sent: Set<string>
  /** Whether the nodes' pools had no room for the newest one: only a block makes room. */
  isPoolFull: boolean
  signed: SignedPermit
  evidenceAt: number
  /** Whether a transaction is in a block that is not deep enough. */
  isMined: boolean
}

/**
 * Sends the newest transaction of a signed permit and follows all with its account nonce until one decides it. Returns
 * `open` when the time is up and `stale` when the lease is lost.
 */
export async function followPermit(
  dependencies: FollowPermitDependencies,
  claim: ClaimedPermit,
  signed: SignedPermit,
  signal: AbortSignal,
): Promise<'ended' | 'open' | 'stale'> {
  const { allowanceStore, blockWatch, limitReads, leaseMs, evidenceAfterMs = EVIDENCE_AFTER_MS } = dependencies
  const startedAt = performance.now()
  const watch: Watch = {
    claim,
    startedAt,
    following: blockWatch.follow(hashesOf(signed)),
    sent: new Set(),
    isPoolFull: false,
    signed,
    evidenceAt: startedAt + evidenceAfterMs,
    isMined: false,
  }
  try {
    let event: ChainEvent = 'moved'
    while (event !== 'aborted') {
      await sendNewest(dependencies, watch)
      const verdict = await limitReads(() => readAndJudge(dependencies, watch))
      if (verdict.verdict !== 'open') return await end(dependencies, claim, verdict)
      if (performance.now() - startedAt >= WATCH_MS) break
      if ((await allowanceStore.renewAllowance(claim, leaseMs)) === 'stale') return 'stale'
      event = await nextEvent(dependencies, watch, signal)
    }
    return 'open'
  } finally {
    watch.following.stop()
  }
}

/** Sends the newest transaction unless a node has accepted it or it must not be mined. */
async function sendNewest({ permits, logger }: FollowPermitDependencies, watch: Watch): Promise<void> {
  const { claim, signed, sent } = watch
  const [newest] = signed.transactions
  if (!newest || signed.isAbandoned || sent.has(newest.hash)) return
  const answer = await permits.broadcast(newest)
  watch.isPoolFull = answer.outcome === 'pool_full'
  if (answer.outcome === 'pool_full') return
  if (answer.outcome === 'unreachable')
    logger.warn('no response to a broadcast', { allowanceId: claim.allowanceId, error: answer.cause })
  else sent.add(newest.hash)
}

function nextEvent(
  { leaseMs, unaskedMs = RECEIPT_POLL_MS }: FollowPermitDependencies,
  { signed, sent, isMined, isPoolFull, following }: Watch,
  signal: AbortSignal,
): Promise<ChainEvent> {
  const [newest] = signed.transactions
  const isSent = newest === undefined || signed.isAbandoned || sent.has(newest.hash)
  const longestMs = Math.min(unaskedMs, isSent || isPoolFull ? unaskedMs : RESEND_MS, leaseMs / 3)
  return following.next({ longestMs, signal, everyBlock: isMined || isPoolFull, justSent: isSent })
}

/** Reads the transactions, with evidence when it is due or when one was mined without effect. */
async function readAndJudge(
  { allowanceStore, permits, evidenceAfterMs = EVIDENCE_AFTER_MS }: FollowPermitDependencies,
  watch: Watch,
): Promise<PermitVerdict> {
  const { claim } = watch
  const { allowanceId, permit } = claim
  const read = async (): Promise<readonly PermitStatus[]> =>
    await Promise.all(
      hashesOf(watch.signed).map(async (hash) => ({ hash, confirmation: await permits.confirm(hash, permit) })),
    )
  const isDue = performance.now() >= watch.evidenceAt
  const first = isDue ? null : await read()
  watch.isMined = (first ?? []).some(({ confirmation }) => isInBlock(confirmation))
  if (first && !needsEvidence(first)) return judgePermit(permit, watch.signed, first, null)
  const evidence = await permits.readEvidence(permit.owner, watch.signed.account.facilitator)
  watch.evidenceAt = performance.now() + evidenceAfterMs
  // Read after the evidence: a replacement or a filler signed in the meantime may be what was mined.
  watch.signed = (await allowanceStore.readSignedPermit(allowanceId)) ?? watch.signed
  watch.following.setTransactions(hashesOf(watch.signed))
  const statuses = await read()
  watch.isMined = statuses.some(({ confirmation }) => isInBlock(confirmation))
  return judgePermit(permit, watch.signed, statuses, evidence.outcome === 'read' ? evidence : null)
}

async function end(
  { allowanceStore, logger }: FollowPermitDependencies,
  claim: ClaimedPermit,
  verdict: Exclude<PermitVerdict, { verdict: 'open' }>,
): Promise<'ended' | 'stale'> {
  const { allowanceId } = claim
  switch (verdict.verdict) {
    case 'granted': {
      const written = await allowanceStore.confirmAllowance(claim, verdict.granted)
      return written === 'stale' ? 'stale' : 'ended'
    }
    case 'failed': {
      const { failure, mined } = verdict
      logger.warn('a sponsored permit had no effect', { allowanceId, code: failure.code, reason: failure.reason })
      const written = await allowanceStore.failAllowance(claim, failure, mined)
      return written === 'stale' ? 'stale' : 'ended'
    }
    case 'nonce_used_elsewhere': {
      logger.warn('an account nonce was used outside this ledger; signing again', { allowanceId })
      const written = await allowanceStore.requestAgain(claim)
      return written === 'stale' ? 'stale' : 'ended'
    }
  }
}

function hashesOf({ transactions, fillers }: SignedPermit): readonly `0x${string}`[] {
  return [...transactions, ...fillers].map(({ hash }) => hash)
}

function isInBlock(confirmation: PermitStatus['confirmation']): boolean {
  return confirmation.outcome === 'pending' && confirmation.isMined === true
}
