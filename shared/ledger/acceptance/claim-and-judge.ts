import type { Sql } from '../pool.ts'
import type { LockedRows } from '../share-statements.ts'
import type { AcceptanceRefused, NewJob } from './acceptance.ts'
import { type Claim, claimNonces, type LockedKey } from './claim-nonces.ts'
import { exposureQuestion, judgePayments, type UnchargedLimits } from './judge-payments.ts'
import { readExposures } from './read-exposure.ts'

/** A claim whose payment is accepted. `isNewPayer`: what the payer has paid does not cover the payment. */
export interface AcceptedClaim extends Claim {
  readonly isNewPayer: boolean
}

export interface JudgedClaims {
  readonly keys: ReadonlyMap<string, LockedKey>
  readonly accepted: readonly AcceptedClaim[]
  /** Why the first payment of each payer with one that has to be refused is refused. */
  readonly refusals: readonly AcceptanceRefused[]
}

/**
 * Claims the nonces of payments and judges those that have one, by payer and in their order. After a refusal the
 * transaction must not be committed: that payment is claimed, and so may be those of its payer behind it. `limits` are for
 * new work.
 */
export async function claimAndJudge(
  sql: Sql,
  claims: readonly Claim[],
  lockedRows: LockedRows,
  limits: UnchargedLimits | null,
): Promise<JudgedClaims> {
  const questions = claims.map(({ job }) => exposureQuestion(job, limits))
  // In one round trip. The exposures are read after the locks, with a snapshot of their own.
  const [keys, exposures] = await Promise.all([claimNonces(sql, claims, lockedRows), readExposures(sql, questions)])
  const claimed = claims.flatMap((claim, index) => {
    const question = questions[index]
    const exposure = question && exposures.get(question)
    return exposure && keys.get(claim.job.idempotencyKey)?.isClaimed ? [{ ...claim, exposure }] : []
  })
  const accepted: AcceptedClaim[] = []
  const refusals: AcceptanceRefused[] = []
  for (const payments of Map.groupBy(claimed, ({ job }) => payerOf(job)).values()) {
    const judgment = await judgePayments(sql, payments, limits)
    accepted.push(...judgment.accepted)
    if (judgment.refusal) refusals.push(judgment.refusal)
  }
  return { keys, accepted, refusals }
}

/** Claims the nonce of one payment, after waiting for others of its key and payer. Throws `AcceptanceRefused`. */
export async function claimOne(sql: Sql, claim: Claim, limits: UnchargedLimits | null) {
  const { keys, accepted, refusals } = await claimAndJudge(sql, [claim], 'wait', limits)
  const [refusal] = refusals
  if (refusal) throw refusal
  return { key: keys.get(claim.job.idempotencyKey), accepted: accepted[0] }
}

export function payerOf({ authorization: { network, payer } }: NewJob): string {
  return `${network} ${payer}`
}
