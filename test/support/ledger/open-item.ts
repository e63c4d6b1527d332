import { randomBytes } from 'node:crypto'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { claimTestJob, completionOf, fencedWrites, jobInState } from './job-in-state.ts'
import { newTestJob, paidAgain, type TestJob } from './new-test-job.ts'
import { testAuthorization } from './test-authorization.ts'
import type { TestLedger } from './test-ledger.ts'

type Hex = `0x${string}`

/** Something that waits for a person, made by the stores' own transitions. */
export interface OpenItem {
  /** As `parseItemName` reads it. */
  readonly id: string
  readonly request: TestJob
  /** `null` for a settlement that no job of the ledger knows. */
  readonly job: LeasedJob | null
}

export function randomHash(): Hex {
  return `0x${randomBytes(32).toString('hex')}`
}

/** Makes a job in review, with its unproven settlement. */
export async function inReview(ledger: TestLedger, request = newTestJob()): Promise<OpenItem> {
  const job = await jobInState(ledger, 'review', request)
  return { id: `review:${job.id}`, request, job }
}

/** Makes a withheld result whose payer owes the charge. */
export async function inDebt(ledger: TestLedger, request = newTestJob()): Promise<OpenItem> {
  const job = await jobInState(ledger, 'settlement_failed', request)
  return { id: `debt:${job.id}`, request, job }
}

/** Makes a confirmed settlement that a reorganization removed for good. */
export async function lostSettlement(ledger: TestLedger, request = newTestJob()): Promise<OpenItem> {
  const job = await jobInState(ledger, 'completed', request)
  const id = await settlementOf(ledger, job)
  await ledger.settlement.loseSettlement(id, 'removed by a reorganization')
  return { id: `settlement:${id}`, request, job }
}

/** Makes a failed settlement that charged after all, of a job that another one has paid for. The charge is in block 9. */
export async function surplusSettlement(ledger: TestLedger, request = newTestJob()): Promise<OpenItem> {
  const failed = await jobInState(ledger, 'settlement_failed', request)
  const id = await settlementOf(ledger, failed)
  await ledger.acceptance.acceptPayment(paidAgain(request))
  const again = await claimTestJob(ledger, failed.id)
  await fencedWrites.recordSettlement.run(ledger, again)
  await ledger.settlement.completeJob(again, await completionOf(ledger, again))
  await makeSurplus(ledger, id)
  return { id: `settlement:${id}`, request, job: again }
}

/** Lets a failed settlement succeed in block 9. */
export async function makeSurplus(ledger: TestLedger, settlementId: string): Promise<void> {
  const settledAt = { transactionHash: randomHash(), blockNumber: 9n, blockHash: randomHash() }
  const outcome = await ledger.settlement.reopenSettlement(settlementId, settledAt)
  if (outcome !== 'surplus') throw new Error(`the settlement is ${outcome}`)
}

interface UnknownOptions {
  readonly request?: TestJob
  readonly job?: LeasedJob
  readonly amount?: AtomicAmount
  readonly blockNumber?: bigint
}

/** Records a settlement that the ledger does not know. */
export async function unknownSettlement(
  ledger: TestLedger,
  { request = newTestJob(), job, amount = atomicAmount(4000n), blockNumber = 9n }: UnknownOptions = {},
): Promise<OpenItem> {
  const { authorization, idempotencyKey, origin } = request
  await ledger.acceptance.recordUnknownSettlement({
    authorization,
    found: { transaction: randomHash(), blockNumber, amount },
    idempotencyKey,
    requestId: origin.requestId,
    jobId: job?.id ?? null,
  })
  const { network, payer, nonce } = authorization
  return { id: `unknown_settlement:${network}:${payer}:${nonce}`, request, job: job ?? null }
}

/** Returns a request of this payer. */
export function requestOf(payer: Hex): TestJob {
  return newTestJob({ authorization: testAuthorization({ payer }) })
}

async function settlementOf(ledger: TestLedger, job: LeasedJob): Promise<string> {
  const [row] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE authorization_id = $1', [
    job.authorizationId,
  ])
  if (!row) throw new Error(`job ${job.id} has no settlement`)
  return row.id
}
