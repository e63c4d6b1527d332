import type { CallerAnswer, CallRecord, DatabaseLedger, JobEntry, Ledgers, Replay, Violation } from './ledgers.ts'
import { findLostToReorganization, namesSettlement } from './names-settlement.ts'
import { indexTransfers } from './payment-transfers.ts'

/**
 * Checks I4 and I5 as clients saw them: a result is released only to its payer and after its settlement, a withheld one
 * to no one, and a charged one stays available, byte for byte.
 */
export function checkClients(ledgers: Ledgers): Violation[] {
  const { chain, database, clients } = ledgers
  const jobOf = new Map(database.jobs.map((job) => [job.idempotencyKey, job]))
  const transfers = indexTransfers(chain.transfers)
  const settlementOf = new Map(database.settlements.map((settlement) => [settlement.authorizationId, settlement]))
  const lost = findLostToReorganization(ledgers)
  /**
   * Returns the amount that the answer's transaction transferred for this job, even if a reorganization removed it
   * later.
   */
  const amountOf = (transaction: string, { authorizationId }: JobEntry): bigint | undefined => {
    const settlement = settlementOf.get(authorizationId)
    if (settlement && lost.has(settlement)) return settlement.chargeAmount
    if (!settlement) return undefined
    const present = namesSettlement(transaction, settlement, chain) ? settlement.transactionHash : null
    return transfers.inTransaction(settlement, present ?? transaction)?.amount
  }
  return [
    ...clients.calls.flatMap((call) => {
      const job = jobOf.get(call.idempotencyKey)
      const released = call.answers.filter(({ status }) => status === 200)
      return [
        ...released.flatMap((answer) => checkRelease(call, job, answer, amountOf)),
        ...checkSame(call, job, released),
      ]
    }),
    ...checkWithheld(clients.calls, database),
    ...checkReplays(database, clients.calls, clients.replays),
  ]
}

function checkRelease(
  call: CallRecord,
  job: JobEntry | undefined,
  answer: CallerAnswer,
  amountOf: (transaction: string, job: JobEntry) => bigint | undefined,
): Violation[] {
  const early = (detail: string): Violation => ({ invariant: 'I4', jobId: job?.id ?? null, detail })
  if (!job) return [early(`${call.callId} got a result without a job`)]
  const violations: Violation[] = []
  if (job.payer !== call.payer) violations.push(early(`the result of ${job.payer} went to ${call.payer}`))
  if (job.state !== 'completed') violations.push(early(`released while the job ended as ${job.state}`))
  if (job.resultDigest !== null && isWholeBody(call) && answer.bodySha256 !== job.resultDigest)
    violations.push(early('the released result is not the stored one'))
  if (job.receiptId !== answer.receiptId) violations.push(early('released with another receipt than the stored one'))
  if (answer.transaction === null) violations.push(early('released without a PAYMENT-RESPONSE'))
  else if (answer.transaction !== '' || job.chargeAmount !== 0n) {
    const settled = amountOf(answer.transaction, job)
    if (settled === undefined) violations.push(early(`released for ${answer.transaction}, which transferred nothing`))
    else if (settled.toString() !== answer.amount)
      violations.push(early(`released for ${answer.amount}, but ${settled} was transferred`))
    if (answer.wasMined === false) violations.push(early('released before its settlement was mined'))
  }
  return violations
}

/** Returns whether an answer is a stored body: speech may be requested as bytes instead. */
function isWholeBody({ answers }: CallRecord): boolean {
  return answers.every(({ status, bodyText }) => status !== 200 || bodyText !== null)
}

function checkSame(call: CallRecord, job: JobEntry | undefined, released: readonly CallerAnswer[]): Violation[] {
  const jobId = job?.id ?? null
  const [first] = released
  const other = released.find(
    ({ bodySha256, receiptId }) => bodySha256 !== first?.bodySha256 || receiptId !== first.receiptId,
  )
  if (other) return [{ invariant: 'I5', jobId, detail: `${call.callId} got two different results` }]
  if (call.outcome === 'released' && !first)
    return [{ invariant: 'liveness', jobId, detail: `${call.callId} ended as released without a result` }]
  return []
}

/** Shorter parts of a result could occur in an error by chance, and the name of its model is in every challenge. */
const TELLING_CHARACTERS = 24

function checkWithheld(calls: readonly CallRecord[], { jobs }: DatabaseLedger): Violation[] {
  const answersOf = new Map(calls.map(({ idempotencyKey, answers }) => [idempotencyKey, answers]))
  return jobs.flatMap(({ id: jobId, idempotencyKey, state, resultBody, resultDigest }): Violation[] => {
    if (state === 'completed' || resultBody === null) return []
    const { model: _, ...result } = JSON.parse(resultBody) as Record<string, unknown>
    const secrets = textsIn(result).filter((text) => text.length >= TELLING_CHARACTERS)
    const isLeaked = (answersOf.get(idempotencyKey) ?? []).some(
      ({ bodySha256, bodyText }) =>
        bodySha256 === resultDigest || secrets.some((secret) => bodyText?.includes(secret) ?? false),
    )
    return isLeaked ? [{ invariant: 'I4', jobId, detail: `a withheld result (${state}) was released` }] : []
  })
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

function checkReplays(
  { jobs, media }: DatabaseLedger,
  calls: readonly CallRecord[],
  replays: readonly Replay[],
): Violation[] {
  const replayOf = new Map(replays.map((replay) => [replay.callId, replay]))
  const charged = new Map(jobs.filter(({ state }) => state === 'completed').map((job) => [job.idempotencyKey, job]))
  return calls.flatMap((call): Violation[] => {
    const job = charged.get(call.idempotencyKey)
    if (!job || job.payer !== call.payer) return []
    const lost = (detail: string): Violation => ({ invariant: 'I5', jobId: job.id, detail })
    const replay = replayOf.get(call.callId)
    // A large campaign replays only part of its calls at a time.
    if (!replay) return []
    const { answer } = replay
    if (!answer) return [lost(`${call.callId} was charged but could not be replayed`)]
    if (answer.status !== 200) return [lost(`a replay got ${answer.status} ${answer.code ?? ''}`)]
    const seen = call.answers.find(({ status }) => status === 200)
    const violations: Violation[] = []
    if (answer.receiptId !== job.receiptId) violations.push(lost('a replay had another receipt'))
    if (answer.bodySha256 !== (seen?.bodySha256 ?? job.resultDigest)) violations.push(lost('a replay had other bytes'))
    const stored = new Set(media.filter(({ jobId }) => jobId === job.id).map(({ sha256 }) => sha256))
    for (const { url, sha256 } of replay.media)
      if (sha256 === null || !stored.has(sha256)) violations.push(lost(`its media ${url} differ from what was stored`))
    if (stored.size > 0 && replay.media.length === 0) violations.push(lost('its result references no media'))
    return violations
  })
}
