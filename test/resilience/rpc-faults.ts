import { setTimeout as delay } from 'node:timers/promises'
import type { RpcFault } from '../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  type ChatAnswer,
  payChat,
  type SignedChat,
  sendChat,
  signChat,
  upstreamCallsByKey,
} from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../support/processes/test-sandbox.ts'
import { type RpcStage, type RpcWatch, watchRpc } from './stack/rpc-watch.ts'

/** Short, so that hanging calls end soon, yet many times the latency of a working node. */
const RPC_TIMEOUT_MS = 2500
const USDC_OF_A_PAYER = 1_000_000n
/** A node is healed once this many calls of a case met its fault and a caller was answered with it. */
const HITS_BEFORE_HEALING = 2
/** Every failure asks for the same request again, and many others may be served first. */
const CALLER_PATIENCE_MS = 5 * PATIENCE_MS

const FAULTS: Readonly<Record<string, RpcFault>> = {
  down: { kind: 'reset' },
  hanging: { kind: 'hang' },
  'slow, in time': { kind: 'slow', delayMs: 150 },
  'too slow': { kind: 'slow', delayMs: 2 * RPC_TIMEOUT_MS },
  'HTTP 500': { kind: 'status', status: 500 },
  'rate limiting': { kind: 'status', status: 429 },
  'internal error': { kind: 'error', code: -32_603, message: 'Internal error' },
  'header not found': { kind: 'error', code: -32_000, message: 'header not found' },
  'an HTML page': { kind: 'html' },
  'answer lost': { kind: 'lost_answer' },
}
const STAGES: readonly RpcStage[] = ['verify', 'recheck', 'prepare', 'broadcast', 'confirm']
/** These affect the calls of all payers and therefore run one at a time: a few suffice. */
const FAULTS_OF_TERMS = ['down', 'hanging', 'HTTP 500']

/** One payment that met a faulty node, and its outcome. */
export interface RpcFaultRow {
  readonly stage: string
  readonly fault: string
  /** The answers in order, without repetitions, as `status code (payment)`. */
  readonly answers: string
  /** Number of RPC calls that met the fault. */
  readonly hits: number
  readonly upstreamCalls: number
  readonly transfers: number
  /** Time from healing to the 200. */
  readonly recoveryMs: number
  readonly violations: readonly string[]
}

/** A stack whose API and worker reach the node through separate proxies. */
export interface WatchedStack {
  readonly sandbox: TestSandbox
  readonly rpc: RpcWatch
  stop(): Promise<void>
}

export async function startWatchedStack({
  holdSeconds = 1,
  rpcTimeoutMs = PATIENCE_MS,
  apiEnvironment = {},
  settlementContract = true,
}: {
  readonly holdSeconds?: number
  /** RPC timeout; default: a minute, for nodes that always answer. */
  readonly rpcTimeoutMs?: number
  readonly apiEnvironment?: Readonly<Record<string, string>>
  /** Whether payments are settled through the contract. */
  readonly settlementContract?: boolean
} = {}): Promise<WatchedStack> {
  const watching = Promise.withResolvers<RpcWatch>()
  let rpcUrls = { api: '', worker: '' }
  const sandbox = await startStandaloneSandbox({
    settlementContract,
    connections: async (real) => {
      const watch = await watchRpc(real.rpcUrl)
      watching.resolve(watch)
      rpcUrls = { api: watch.api.url, worker: watch.worker.url }
      return real
    },
    environmentOf: (name) => ({ RPC_URL: name.startsWith('api') ? rpcUrls.api : rpcUrls.worker }),
    apiEnvironment: {
      ...WITHOUT_BUDGETS,
      HOLD_SECONDS: String(holdSeconds),
      RPC_TIMEOUT_MS: String(rpcTimeoutMs),
      ...apiEnvironment,
    },
    workerEnvironment: {
      ...WITHOUT_BUDGETS,
      RPC_TIMEOUT_MS: String(rpcTimeoutMs),
      // The only worker lives as long as its stack, so only starvation could cost it a lease.
      LEASE_SECONDS: '60',
      WORKER_CONCURRENCY: '64',
    },
  })
  const rpc = await watching.promise
  return {
    sandbox,
    rpc,
    stop: async () => {
      await sandbox.stop()
      await rpc.stop()
    },
  }
}

/** Runs every fault at every stage, each with a separate payment, concurrently where they do not affect each other. */
export async function runRpcFaults(): Promise<readonly RpcFaultRow[]> {
  const stack = await startWatchedStack({ rpcTimeoutMs: RPC_TIMEOUT_MS })
  try {
    const cases: FaultCase[] = []
    for (const stage of STAGES)
      for (const fault of Object.keys(FAULTS)) cases.push({ stage, fault, payer: await fundedPayer(stack) })
    const challenge = await challengeWithoutChain(stack)
    const own = await Promise.all(cases.map((one) => payThroughFault(stack, one)))
    const shared: RpcFaultRow[] = []
    for (const fault of FAULTS_OF_TERMS)
      shared.push(await payThroughFault(stack, { stage: 'terms', fault, payer: await fundedPayer(stack) }))
    return [challenge, ...own, ...shared]
  } finally {
    await stack.stop()
  }
}

export function fundedPayer({ sandbox }: WatchedStack): Promise<Payer> {
  return createPayer(sandbox.info.rpcUrl, { usdcAtomic: USDC_OF_A_PAYER, approved: true })
}

/** Checks that a challenge needs no RPC call, so that a node that is down does not affect it. */
async function challengeWithoutChain({ sandbox, rpc }: WatchedStack): Promise<RpcFaultRow> {
  const before = rpc.api.calls.length
  rpc.api.setFault({ kind: 'reset' })
  const answer = await sendChat(sandbox.info.baseUrl, crypto.randomUUID())
  rpc.api.setFault(null)
  const hits = rpc.api.calls.length - before
  const violations = [
    ...(answer.status === 402 ? [] : [`a challenge was answered with ${answer.status}`]),
    ...(hits === 0 ? [] : [`a challenge made ${hits} RPC calls`]),
  ]
  const nothing = { upstreamCalls: 0, transfers: 0, recoveryMs: 0 }
  return { stage: 'challenge', fault: 'down', answers: describeAnswer(answer), hits, ...nothing, violations }
}

interface FaultCase {
  readonly stage: RpcStage
  readonly fault: string
  readonly payer: Payer
}

async function payThroughFault(stack: WatchedStack, { stage, fault, payer }: FaultCase): Promise<RpcFaultRow> {
  const { sandbox, rpc } = stack
  const { baseUrl } = sandbox.info
  const chat = await signChat(baseUrl, payer)
  const met = FAULTS[fault]
  if (met === undefined) throw new Error(`unknown fault: ${fault}`)
  const who = stage === 'terms' ? null : payer.account.address
  const armed = rpc.arm({ payer: who, stages: [stage], fault: met })
  // A node that is only slow is not healed: the payment must succeed with it.
  const isInTime = met.kind === 'slow' && met.delayMs < RPC_TIMEOUT_MS
  const answers: ChatAnswer[] = []
  await askUntilPaid(baseUrl, chat, answers, () => !isInTime && armed.hits >= HITS_BEFORE_HEALING)
  rpc.heal(armed)
  const healedAt = performance.now()
  if (answers.at(-1)?.retry === 'same_request') await askUntilPaid(baseUrl, chat, answers)
  const recoveryMs = Math.round(performance.now() - healedAt)
  return { stage, fault, hits: armed.hits, recoveryMs, ...(await judge(stack, chat, answers)) }
}

/** Repeats the same signed request for as long as the failures ask for that, or until `isEnough`. */
export async function askUntilPaid(
  baseUrl: string,
  chat: SignedChat,
  answers: ChatAnswer[],
  isEnough: () => boolean = () => false,
): Promise<void> {
  for (const giveUpAt = performance.now() + CALLER_PATIENCE_MS; performance.now() < giveUpAt; await delay(150)) {
    const answer = await payChat(baseUrl, chat)
    answers.push(answer)
    if (answer.retry !== 'same_request' || isEnough()) return
  }
}

async function judge(
  { sandbox }: WatchedStack,
  chat: SignedChat,
  answers: readonly ChatAnswer[],
): Promise<Pick<RpcFaultRow, 'answers' | 'upstreamCalls' | 'transfers' | 'violations'>> {
  const { upstreamCalls, transfers } = await countFor(sandbox, chat)
  const violations: string[] = []
  const last = answers.at(-1)
  const refused = answers.find(({ status }) => status !== 200 && status !== 503)
  if (refused) violations.push(`a valid payment was answered with ${describeAnswer(refused)}`)
  if (last?.status !== 200) violations.push('the same signed request was not served after healing')
  if (upstreamCalls !== 1) violations.push(`${upstreamCalls} provider calls`)
  if (transfers.length !== 1) violations.push(`${transfers.length} transfers`)
  if (last && transfers[0]?.valueAtomic !== last.charged)
    violations.push(`charged ${transfers[0]?.valueAtomic}, reported ${last.charged}`)
  const replay = await payChat(sandbox.info.baseUrl, chat)
  if (replay.body !== last?.body || replay.receiptId !== last.receiptId) violations.push('the replay differs')
  return { answers: distinct(answers), upstreamCalls, transfers: transfers.length, violations }
}

/** Returns the upstream calls and the transfers of one payment. */
export async function countFor(sandbox: TestSandbox, { idempotencyKey, payer }: SignedChat) {
  const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
  return {
    upstreamCalls: (await upstreamCallsByKey(sandbox.info)).get(idempotencyKey) ?? 0,
    transfers: transfers.filter(({ from }) => from.toLowerCase() === payer.account.address.toLowerCase()),
  }
}

export function describeAnswer({ status, code, payment }: ChatAnswer): string {
  return status === 200 ? '200' : `${status} ${code} (${payment})`
}

/** Returns the answers in order, without repetitions. */
export function distinct(answers: readonly ChatAnswer[]): string {
  return [...new Set(answers.map(describeAnswer))].join(' → ')
}

/** Runs `npm run campaign -- rpc-faults`. */
export async function run(): Promise<number> {
  const rows = await runRpcFaults()
  console.table(rows.map((row) => ({ ...row, violations: row.violations.join('; ') })))
  return rows.every(({ violations }) => violations.length === 0) ? 0 : 1
}
