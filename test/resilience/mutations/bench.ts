import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PaymentRequired } from '@x402/core/types'
import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { challengeOf, paymentHeader, type SignedTerms, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { randomNonce } from '../../support/payer/sign-authorization.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { type CallKind, type CallRequest, newCallRequest } from '../calls/call-requests.ts'
import { newCallRecord, readCallerAnswer } from '../calls/recorded-call.ts'
import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallerAnswer, CallRecord, Violation } from '../checker/ledgers.ts'
import { objectsInFolder } from '../checker/read-objects.ts'
import { createPointControl, type PointControl } from '../processes/reach-point.ts'
import { canaryOf } from '../stack/stack.ts'
import { untilNoneLeft } from '../stack/until-reached.ts'

/** A call whose every step is decided by the scenario. */
export interface BenchCall {
  readonly record: CallRecord
  readonly request: CallRequest
  challenge(): Promise<PaymentRequired>
  /** Signs a challenge; returns the headers of the payment. */
  sign(required: PaymentRequired, terms?: Partial<SignedTerms>): Promise<Record<string, string>>
  /** Sends and records the answer; returns `null` when the connection broke or no answer arrived in time. */
  send(headers: Record<string, string>, api?: number): Promise<CallerAnswer | null>
  /** Pays and follows the answers' retry advice, with at most `signatures` signatures, until an answer is final. */
  payUntilDone(options?: { signatures?: number; headers?: Record<string, string> }): Promise<void>
}

export interface Bench {
  readonly sandbox: TestSandbox
  readonly newPayer: () => Promise<Payer>
  /** Opens a call; `like` makes it another client's call for the same request under the same key. */
  readonly open: (kind: CallKind, payer: Payer, like?: BenchCall) => BenchCall
  readonly signal: (name: ServiceName, signal: NodeJS.Signals) => void
  readonly points: PointControl
  /** Returns the process that reaches the point; `null` when none does, as a mutated service may not. */
  readonly untilHit: (point: string) => Promise<number | null>
  /** Polls; returns `false` when the state is not reached in time, as with a mutated service. */
  readonly until: (isReached: () => boolean | Promise<boolean>) => Promise<boolean>
  /** Continues a process that stopped at a point. */
  readonly resume: (pid: number | null) => void
  /**
   * Expires the lease of the only unfinished job, whether its holder is alive or not, and waits until it is taken over.
   */
  readonly loseLease: () => Promise<void>
  /** When the scenario reorganized the chain, in Unix milliseconds. */
  readonly reorganizedAt: number[]
  stop(): Promise<void>
}

/** The checker's violations, and the number of released results: a scenario without any proves nothing. */
export interface Verdict {
  readonly violations: readonly Violation[]
  readonly released: number
}

export const PAYER_FUNDS_ATOMIC = 10_000_000n
const RETRY_PAUSE_MS = 150
const POLL_MS = 20
/** A process reports a point just before it stops there; a SIGCONT in between would be lost. */
const RESUME_AGAIN_MS = 100

export interface BenchOptions {
  /** SQL for the fresh database. */
  readonly statements: readonly string[]
  /** Time limit of every wait. */
  readonly patienceMs: number
  /** Whether payments settle through the settlement contract. */
  readonly settlementContract: boolean
}

/**
 * Starts two APIs and two workers with points at which they can be stopped, and leases that only the scenario expires.
 */
export async function startBench({
  statements,
  patienceMs,
  settlementContract,
}: BenchOptions): Promise<Bench & { judge(): Promise<Verdict> }> {
  const pointsDirectory = await mkdtemp(join(tmpdir(), 'farebox-points-'))
  const sandbox = await startStandaloneSandbox({
    apis: 2,
    workers: 2,
    settlementContract,
    apiEntry: 'test/resilience/processes/api.ts',
    workerEntry: 'test/resilience/processes/worker.ts',
    // Long enough that every answer is final, unless the client runs out of patience.
    apiEnvironment: { ...WITHOUT_BUDGETS, HOLD_SECONDS: '240' },
    workerEnvironment: { ...WITHOUT_BUDGETS, LEASE_SECONDS: '60' },
    environmentOf: () => ({ FAULT_POINTS_DIRECTORY: pointsDirectory }),
  })
  const points = createPointControl(pointsDirectory)
  const resumed = new Set<number>()
  const resumeAgain = setInterval(() => {
    for (const pid of resumed) continueProcess(pid)
  }, RESUME_AGAIN_MS)
  const stopping = new AbortController()
  const until: Bench['until'] = async (isReached) => {
    const giveUpAt = performance.now() + patienceMs
    while (performance.now() < giveUpAt && !stopping.signal.aborted) {
      if (await isReached()) return true
      await delay(POLL_MS)
    }
    return false
  }
  const calls: { call: BenchCall; headers: Record<string, string> }[] = []
  for (const statement of statements) await sandbox.sql(statement)
  const reorganizedAt: number[] = []
  const keep = (call: BenchCall, headers: Record<string, string>) => calls.push({ call, headers })
  return {
    sandbox,
    newPayer: () => createPayer(sandbox.info.rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: true }),
    open: (kind, payer, like) =>
      openCall({ sandbox, patienceMs, keep }, payer, like?.request ?? newCallRequest(kind), like),
    signal: (name, signal) => void process.kill(sandbox.pidOf(name), signal),
    points,
    untilHit: async (point) => ((await until(() => points.hitBy(point) !== null)) ? points.hitBy(point) : null),
    until,
    resume: (pid) => {
      if (pid === null) return
      resumed.add(pid)
      continueProcess(pid)
    },
    loseLease: () => loseLease(sandbox, until),
    reorganizedAt,
    judge: () => judge(sandbox, calls, { patienceMs, reorganizedAt }),
    stop: async () => {
      stopping.abort()
      clearInterval(resumeAgain)
      await sandbox.stop()
      await rm(pointsDirectory, { recursive: true, force: true })
    },
  }
}

function continueProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It has ended in the meantime.
  }
}

async function loseLease(sandbox: TestSandbox, until: Bench['until']): Promise<void> {
  const unfinished = "state IN ('accepted', 'generating', 'generated', 'settling')"
  const [held] = await sandbox.sql<{ fence: string }>(`SELECT fence FROM jobs WHERE ${unfinished}`)
  if (!held) return
  // Repeatedly: a lost provider call gets a grace period, which counts as a lease.
  await until(async () => {
    await sandbox.sql(`UPDATE jobs SET lease_expires_at = now() WHERE fence = $1 AND lease_expires_at > now()`, [
      held.fence,
    ])
    const stillHeld = await sandbox.sql(`SELECT 1 FROM jobs WHERE fence = $1 AND ${unfinished}`, [held.fence])
    return stillHeld.length === 0
  })
}

interface CallContext {
  readonly sandbox: TestSandbox
  readonly patienceMs: number
  readonly keep: (call: BenchCall, headers: Record<string, string>) => void
}

function openCall(
  { sandbox, patienceMs, keep }: CallContext,
  payer: Payer,
  request: CallRequest,
  like: BenchCall | undefined,
): BenchCall {
  const fresh = newCallRecord(request, payer.account.address)
  const record = like ? { ...fresh, idempotencyKey: like.record.idempotencyKey } : fresh
  const post = (headers: Record<string, string>, api = 0) =>
    fetch(`${sandbox.info.baseUrls[api] ?? sandbox.info.baseUrl}${request.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': record.idempotencyKey, ...headers },
      body: request.body,
      signal: AbortSignal.timeout(patienceMs),
    })
  const call: BenchCall = {
    record,
    request,
    challenge: async () => challengeOf(await post({})),
    sign: async (required, terms = {}) => {
      const nonce = terms.nonce ?? randomNonce()
      record.nonces.push(nonce.toString())
      const headers = paymentHeader(await signCustomPayment(required, payer, { terms: { ...terms, nonce } }))
      keep(call, headers)
      return headers
    },
    send: async (headers, api) => {
      try {
        const answer = await readCallerAnswer(await post(headers, api), sandbox.info.rpcUrl)
        record.answers.push(answer)
        return answer
      } catch {
        return null
      }
    },
    payUntilDone: (options) => payUntilDone(call, patienceMs, options),
  }
  return call
}

async function payUntilDone(
  call: BenchCall,
  patienceMs: number,
  { signatures = 3, headers: first }: { signatures?: number; headers?: Record<string, string> } = {},
): Promise<void> {
  const { record } = call
  const giveUpAt = performance.now() + patienceMs
  let headers = first ?? (await call.sign(await call.challenge()))
  for (let signed = 1; performance.now() < giveUpAt;) {
    const answer = await call.send(headers, record.answers.length % 2)
    if (answer?.status === 200) {
      record.outcome = 'released'
      return
    }
    const advice = answer?.bodyText ? adviceIn(answer.bodyText) : 'same_request'
    if (advice === 'never' || (advice === 'new_payment' && signed === signatures)) {
      record.outcome = 'refused'
      return
    }
    if (advice === 'new_payment') {
      headers = await call.sign(await call.challenge())
      signed += 1
    }
    await delay(RETRY_PAUSE_MS)
  }
  record.outcome = 'gave_up'
}

function adviceIn(bodyText: string): string {
  const { error } = JSON.parse(bodyText) as { error?: { retry?: string } }
  return error?.retry ?? 'new_payment'
}

/** Waits until the system is idle, then compares the five ledgers. */
async function judge(
  sandbox: TestSandbox,
  calls: readonly { call: BenchCall; headers: Record<string, string> }[],
  { patienceMs, reorganizedAt }: { readonly patienceMs: number; readonly reorganizedAt: readonly number[] },
): Promise<Verdict> {
  const readUnfinished = () =>
    sandbox.sql(
      `SELECT id, state FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
       UNION ALL SELECT id, 'upload' FROM staged_uploads WHERE erased_at IS NOT NULL AND object_deleted_at IS NULL`,
    )
  await untilNoneLeft(readUnfinished, patienceMs)
  // A process that was paused or slow may still be about to do what it must not.
  await delay(300)
  const { info, directory } = sandbox
  const lastHeaders = new Map(calls.map(({ call, headers }) => [call.record, { call, headers }]))
  const records = [...lastHeaders.keys()]
  const released = records.filter(({ outcome }) => outcome === 'released')
  const violations = check(
    await collect({
      rpcUrl: info.rpcUrl,
      payTo: info.payTo,
      settlementContract: info.settlementContract,
      settlementAddresses: info.settlementAddresses,
      reorganizedAt,
      databaseUrl: info.databaseUrl,
      upstreamCallLog: join(directory, 'upstream-calls.jsonl'),
      readObjects: objectsInFolder(join(directory, 'uploads')),
      canaries: calls.flatMap(({ call }) => (call.request.audio ? [canaryOf(call.request.audio)] : [])),
      calls: records,
      callsToReplay: released,
      replay: async (record) => {
        const paid = lastHeaders.get(record)
        if (!paid) return null
        const answers = record.answers.length
        const answer = await paid.call.send(paid.headers)
        record.answers.length = answers
        return answer
      },
    }),
  )
  return { violations, released: released.length }
}
