import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PaymentRequired } from '@x402/core/types'
import type { ServiceName } from '../../../infra/sandbox/process-plan.ts'
import {
  challengeOf,
  createPayer,
  paymentHeader,
  randomNonce,
  type SignedTerms,
  signCustomPayment,
  type TestPayer,
} from '../../support/custom-payment.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/test-sandbox.ts'
import { type CallKind, type CallRequest, newCallRequest } from '../call-requests.ts'
import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallerAnswer, CallRecord, Violation } from '../checker/ledgers.ts'
import { objectsInFolder } from '../checker/read-objects.ts'
import { newCallRecord, readCallerAnswer } from '../recorded-call.ts'
import { canaryOf } from '../stack.ts'

/** One call whose every step the scenario decides. */
export interface BenchCall {
  readonly record: CallRecord
  readonly request: CallRequest
  challenge(): Promise<PaymentRequired>
  /** Signs a challenge; gives the headers to pay with. */
  sign(required: PaymentRequired, terms?: Partial<SignedTerms>): Promise<Record<string, string>>
  /** `null` when the connection broke. The answer is on record. */
  send(headers: Record<string, string>, api?: number): Promise<CallerAnswer | null>
  /** Pays and does what the answers say, signing afresh at most `signatures` times, until there is a last word. */
  payUntilDone(options?: { signatures?: number; headers?: Record<string, string> }): Promise<void>
}

export interface Bench {
  readonly sandbox: TestSandbox
  readonly newPayer: () => Promise<TestPayer>
  /** `like` makes it another client's call for the same request under the same key. */
  readonly open: (kind: CallKind, payer: TestPayer, like?: BenchCall) => BenchCall
  readonly signal: (name: ServiceName, signal: NodeJS.Signals) => void
  stop(): Promise<void>
}

/** What the checker says, and how many calls ended with a result: a scenario without any proves nothing. */
export interface Verdict {
  readonly violations: readonly Violation[]
  readonly released: number
}

const PAYER_FUNDS_ATOMIC = 10_000_000n
/** A client has more patience than this; a scenario that is stuck for so long stays stuck. */
const PATIENCE_MS = 9000
const RETRY_PAUSE_MS = 150

/** Two APIs and two workers with short leases, so that a lost worker is noticed within a second. */
export async function startBench(statements: readonly string[]): Promise<Bench & { judge(): Promise<Verdict> }> {
  const timing = { LEASE_SECONDS: '1', SWEEP_SECONDS: '0.2', PROVIDER_TIMEOUT_SECONDS: '20' }
  const sandbox = await startStandaloneSandbox({
    apis: 2,
    workers: 2,
    workerEnvironment: timing,
    apiEnvironment: { HOLD_SECONDS: '8' },
  })
  const calls: { call: BenchCall; headers: Record<string, string> }[] = []
  for (const statement of statements) await sandbox.sql(statement)
  const keep = (call: BenchCall, headers: Record<string, string>) => calls.push({ call, headers })
  return {
    sandbox,
    newPayer: () => createPayer(sandbox.info.rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: true }),
    open: (kind, payer, like) => openCall(sandbox, payer, like?.request ?? newCallRequest(kind), like, keep),
    signal: (name, signal) => void process.kill(sandbox.pidOf(name), signal),
    judge: () => judge(sandbox, calls),
    stop: () => sandbox.stop(),
  }
}

function openCall(
  sandbox: TestSandbox,
  payer: TestPayer,
  request: CallRequest,
  like: BenchCall | undefined,
  keep: (call: BenchCall, headers: Record<string, string>) => void,
): BenchCall {
  const fresh = newCallRecord(request, payer.account.address)
  const record = like ? { ...fresh, idempotencyKey: like.record.idempotencyKey } : fresh
  const post = (headers: Record<string, string>, api = 0) =>
    fetch(`${sandbox.info.baseUrls[api] ?? sandbox.info.baseUrl}${request.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': record.idempotencyKey, ...headers },
      body: request.body,
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
    payUntilDone: (options) => payUntilDone(call, options),
  }
  return call
}

async function payUntilDone(
  call: BenchCall,
  { signatures = 3, headers: first }: { signatures?: number; headers?: Record<string, string> } = {},
): Promise<void> {
  const { record } = call
  const giveUpAt = performance.now() + PATIENCE_MS
  let headers = first ?? (await call.sign(await call.challenge()))
  for (let signed = 1; performance.now() < giveUpAt; ) {
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

/** Waits until nothing moves, then compares the five ledgers. */
async function judge(
  sandbox: TestSandbox,
  calls: readonly { call: BenchCall; headers: Record<string, string> }[],
): Promise<Verdict> {
  const giveUpAt = performance.now() + PATIENCE_MS
  while (performance.now() < giveUpAt) {
    const [unfinished] = await sandbox.sql<{ count: string }>(
      `SELECT count(*) FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')`,
    )
    if (unfinished?.count === '0') break
    await delay(100)
  }
  // Whoever was paused or slow may still be about to do what it must not.
  await delay(300)
  const { info, directory } = sandbox
  const lastHeaders = new Map(calls.map(({ call, headers }) => [call.record, { call, headers }]))
  const records = [...lastHeaders.keys()]
  const released = records.filter(({ outcome }) => outcome === 'released')
  const violations = check(
    await collect({
      rpcUrl: info.rpcUrl,
      payTo: info.payTo,
      settlementAddresses: info.settlementAddresses,
      reorganizedAt: [],
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
