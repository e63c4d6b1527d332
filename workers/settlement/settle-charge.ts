import { setTimeout as delay } from 'node:timers/promises'
import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { ExecutionStore, StoredSettlement } from '#shared/jobs/job-store.ts'
import type { Confirmation, Settler, SignedTransaction } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { after, type StepOutcome } from '../step-outcome.ts'
import { buildReceipt } from './build-receipt.ts'

export interface SettlementDependencies {
  readonly store: Pick<
    ExecutionStore,
    'recordSettlement' | 'readSettlement' | 'completeJob' | 'failSettlement' | 'markForReview'
  >
  readonly settler: Settler
  readonly receiptSecretId: string
  readonly now: () => Date
  readonly logger: Logger
}

/** Between attempts against a chain that cannot be reached or has not mined yet. */
const CHAIN_RETRY_MS = 1000
/** How long one run watches for the transaction before it gives the job back; long enough for several blocks. */
const WATCH_MS = 20_000
const FIRST_LOOK_MS = 20
const LONGEST_PAUSE_MS = 1000

/** generated → settling: fixes and signs the transaction that collects the charge, and stores it. Nothing is sent yet. */
export async function recordCharge(
  { store, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  }
  if (prepared.outcome === 'refused') {
    const failure = { code: 'settlement_failed', reason: prepared.code } as const
    return after(await store.failSettlement(job, failure), 'finished')
  }
  const { terms, minimumAccountNonce } = prepared
  const written = await store.recordSettlement(job, {
    chargeAmount,
    minimumAccountNonce,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, terms, accountNonce),
  })
  return after(written, 'moved')
}

/** settling → completed: sends what is stored, as often as it takes, and believes only the chain's proof. */
export async function collectCharge(dependencies: SettlementDependencies, job: ClaimedJob): Promise<StepOutcome> {
  const { store, settler, logger } = dependencies
  const settlement = await store.readSettlement(job)
  const { transaction, confirmation } = await sendAndWatch(settler, logger, job, settlement)
  switch (confirmation.outcome) {
    case 'confirmed':
      return complete(dependencies, job, settlement, transaction, confirmation)
    case 'reverted': {
      const failure = { code: 'settlement_failed', reason: `reverted in block ${confirmation.blockNumber}` } as const
      return after(await store.failSettlement(job, failure), 'finished')
    }
    case 'unproven':
      return after(await store.markForReview(job, `no transfer in ${transaction.hash}`), 'finished')
    case 'pending':
    case 'unreachable':
      return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: `settlement ${confirmation.outcome}` }
  }
}

/**
 * Sends the settlement's transactions and looks for any of them until one is final in some way or the time is up. One that
 * was not taken is sent again at each look: every later account nonce waits for it.
 */
async function sendAndWatch(
  settler: Settler,
  logger: Logger,
  job: ClaimedJob,
  { transactions }: StoredSettlement,
): Promise<{ transaction: SignedTransaction; confirmation: Confirmation }> {
  const { chargeAmount } = requireSealed(job)
  const [newest] = transactions
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction`)
  const sent = new Set<string>()
  const send = async (transaction: SignedTransaction) => {
    const answer = await settler.broadcast(transaction)
    if (answer.outcome === 'sent') sent.add(transaction.hash)
    else logger.warn('broadcast not answered', { jobId: job.id, error: answer.cause })
  }
  let last: { transaction: SignedTransaction; confirmation: Confirmation } | undefined
  for (let [waited, pause] = [0, FIRST_LOOK_MS]; waited < WATCH_MS; waited += pause, pause = nextPause(pause)) {
    for (const transaction of transactions) {
      if (!sent.has(transaction.hash)) await send(transaction)
      const confirmation = await settler.confirm(transaction.hash, job.authorization, chargeAmount)
      last = { transaction, confirmation }
      if (confirmation.outcome !== 'pending' && confirmation.outcome !== 'unreachable') return last
    }
    await delay(pause)
  }
  return last ?? { transaction: newest, confirmation: { outcome: 'pending' } }
}

function nextPause(pause: number): number {
  return Math.min(pause * 2, LONGEST_PAUSE_MS)
}

async function complete(
  { store, receiptSecretId, now }: SettlementDependencies,
  job: ClaimedJob,
  { settlementId }: StoredSettlement,
  { hash }: SignedTransaction,
  { blockNumber, blockTimestamp }: Extract<Confirmation, { outcome: 'confirmed' }>,
): Promise<StepOutcome> {
  const sealed = requireSealed(job)
  const receipt = buildReceipt(job, sealed, { hash, blockNumber, settledAt: blockTimestamp, issuedAt: now() })
  const written = await store.completeJob(job, {
    settlementId,
    transactionHash: hash,
    blockNumber,
    receipt,
    receiptSecretId,
    paymentResponse: {
      success: true,
      transaction: hash,
      network: job.authorization.network,
      payer: job.authorization.payer,
      amount: sealed.chargeAmount.toString(),
    },
  })
  return after(written, 'finished')
}

function requireSealed({ id, state, sealed }: ClaimedJob): SealedResult {
  if (!sealed) throw new Error(`job ${id} is ${state} without a result`)
  return sealed
}
