import { randomBytes } from 'node:crypto'
import type { LeasedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { RecordingOutcome } from '#shared/ledger/settlement/move-to-settling.ts'
import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { BatchRenewal } from '#shared/ledger/settlement/renew-batch.ts'
import type { NewBatch } from '#shared/ledger/settlement/settlement-batches.ts'
import type { PreparedCharge, SignedTransaction } from '#shared/payment/facilitator.ts'
import { TEST_PRICE } from './new-test-job.ts'
import { NETWORK, randomAddress } from './test-authorization.ts'

type Hex = `0x${string}`

export const TEST_CONTRACT: Hex = '0x3333333333333333333333333333333333333333'

/** Returns random bytes as a signed transaction, different for each call. */
export async function signRandomBytes(accountNonce: bigint): Promise<SignedTransaction> {
  const bytes = randomBytes(24).toString('hex')
  return { hash: `0x${bytes}${accountNonce.toString(16).padStart(16, '0')}`, raw: `0x02${bytes}` }
}

/** A batch of a key, which notes what it was asked to sign. */
export interface TestBatch extends NewBatch {
  readonly signed: { readonly charges: readonly PreparedCharge[]; readonly accountNonce: bigint; readonly hash: Hex }[]
}

/** Returns a batch of `sender`, by default of a key that nobody else uses. */
export function newTestBatch(sender = randomAddress(), overrides: Partial<NewBatch> = {}): TestBatch {
  const signed: TestBatch['signed'] = []
  return {
    account: { network: NETWORK, facilitator: sender },
    contract: TEST_CONTRACT,
    minimumAccountNonce: 0n,
    sign: async (charges, accountNonce) => {
      const transaction = await signRandomBytes(accountNonce)
      signed.push({ charges, accountNonce, hash: transaction.hash })
      return transaction
    },
    ...overrides,
    signed,
  }
}

/** Returns the charge of a job at the test's price. */
function chargeOf({ authorization }: LeasedJob): PreparedCharge {
  const terms = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n, gasLimit: 150_000n, submitsPermit: false }
  return { authorization, chargeAmount: TEST_PRICE, terms }
}

export function recordingOf(job: LeasedJob, lookedUp: readonly string[] = []): BatchRecording {
  return { job, charge: chargeOf(job), lookedUp }
}

/** Returns what moves settlements of these jobs to another batch. */
export function renewalOf(job: LeasedJob, { settlementId, batch }: StoredSettlement): BatchRenewal {
  if (!batch) throw new Error(`the settlement of job ${job.id} is in no batch`)
  return { job, charge: chargeOf(job), settlementId, leavesBatch: batch.id }
}

/** Returns the settlement that was recorded or renewed. */
export function stored(outcome: RecordingOutcome | Error | undefined): StoredSettlement {
  if (outcome === undefined || typeof outcome === 'string' || outcome instanceof Error)
    throw new Error(`not stored: ${String(outcome)}`)
  return outcome
}
