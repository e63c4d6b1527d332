import { check } from '../checker/check.ts'
import type { CallRecord, Ledgers } from '../checker/ledgers.ts'

/** What became of every call that callers made, by their own records, the ledger and the chain. */
export interface Reconciliation {
  readonly calls: number
  /** Calls whose caller did not get the result. */
  readonly failed: readonly string[]
  /** Calls whose caller had to sign more than once, but for those of `unknown`. */
  readonly paidAgain: readonly string[]
  /**
   * Calls that were signed again because their worker was killed while it waited for the vendor: nobody knows whether the
   * vendor worked, so nothing was charged.
   */
  readonly unknown: readonly string[]
  /** Calls that are missing in the ledger or on the chain, and charges whose caller has no result. */
  readonly lost: readonly string[]
  /** What else contradicts the invariants. */
  readonly violations: readonly string[]
}

/**
 * Compares the ledgers of an idle system. Calls of the vendors without a caller's record are those of commands, which read
 * their own results: `npm run ledger` and the chain judge them.
 */
export function reconcile(ledgers: Ledgers): Reconciliation {
  const { calls } = ledgers.clients
  const markers = new Set(calls.map(({ marker }) => marker))
  const upstream = ledgers.upstream.filter(({ marker }) => marker !== null && markers.has(marker))
  const again = calls.filter(({ nonces }) => nonces.length > 1)
  return {
    calls: calls.length,
    failed: calls.filter(({ outcome }) => outcome !== 'released').map(describeCall),
    paidAgain: again.filter((call) => !isUnknown(call)).map(describeCall),
    unknown: again.filter(isUnknown).map(describeCall),
    lost: findLost(ledgers),
    violations: check({ ...ledgers, upstream }).map(
      ({ invariant, jobId, detail }) => `${invariant} ${jobId ?? ''} ${detail}`,
    ),
  }
}

/** Returns whether each further signature follows an answer that says so. */
function isUnknown({ nonces, answers }: CallRecord): boolean {
  const said = answers.filter(({ code }) => code === 'provider_outcome_unknown')
  return nonces.length - 1 <= said.length
}

function findLost({ clients, database, chain }: Ledgers): readonly string[] {
  const jobs = new Map(database.jobs.map((job) => [job.idempotencyKey, job]))
  const confirmed = new Map(
    database.settlements.flatMap(({ jobId, state, transactionHash }) =>
      state === 'confirmed' && transactionHash !== null ? [[jobId, transactionHash] as const] : [],
    ),
  )
  const mined = new Set(chain.transfers.map(({ transactionHash }) => transactionHash))
  return clients.calls.flatMap((call) => {
    const job = jobs.get(call.idempotencyKey)
    const hasResult = call.answers.some(({ status }) => status === 200)
    if (job === undefined) return hasResult ? [`${call.callId}: the ledger has no such call`] : []
    const transaction = confirmed.get(job.id)
    const isPaid = transaction !== undefined && mined.has(transaction)
    const isFree = job.chargeAmount === 0n
    if (hasResult && !isPaid && !isFree) return [`${call.callId}: a result without a payment on the chain`]
    if (isPaid && !hasResult) return [`${call.callId}: a payment on the chain without a result`]
    return []
  })
}

function describeCall({ callId, outcome, nonces, answers, problems }: CallRecord): string {
  const given = answers.slice(-3).map(({ status, code }) => `${status} ${code ?? ''}`.trim())
  return `${callId} ${outcome}, signed ${nonces.length} times: ${[...given, ...problems.slice(-2)].join(' | ')}`
}

/** Whether nothing was lost, failed or asked for twice. */
export function isSound({ failed, paidAgain, lost, violations }: Reconciliation): boolean {
  return failed.length + paidAgain.length + lost.length + violations.length === 0
}

/** Returns the record of a call that nobody made, which a reconciliation must report. */
export function madeUpCaller(): CallRecord {
  return {
    callId: 'made-up',
    idempotencyKey: '00000000-0000-4000-8000-00000000dead',
    path: '/v1/chat/completions',
    marker: 'call-00000000-0000-4000-8000-00000000dead',
    payer: `0x${'d'.repeat(40)}`,
    answers: [
      {
        receivedAt: Date.now(),
        status: 200,
        code: null,
        bodySha256: '0'.repeat(64),
        bodyText: '{}',
        receiptId: 'made-up',
        transaction: `0x${'d'.repeat(64)}`,
        amount: '1',
        wasMined: true,
      },
    ],
    nonces: ['1'],
    problems: [],
    outcome: 'released',
    unpayableSince: null,
    hindersSettlement: false,
  }
}
