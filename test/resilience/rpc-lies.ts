import { setTimeout as delay } from 'node:timers/promises'
import { toHex } from 'viem'
import type { RpcFault } from '../support/chain/rpc-proxy.ts'
import { type ChatAnswer, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer } from '../support/payer/payer.ts'
import { askUntilPaid, countFor, distinct, fundedPayer, startWatchedStack, type WatchedStack } from './rpc-faults.ts'
import { runBatchLies } from './rpc-lies/batch-lies.ts'
import { lieAbout } from './rpc-lies/receipt-lies.ts'
import type { RpcStage } from './stack/rpc-watch.ts'

/**
 * A lie of the node, repeated until the payment ends, and its worst outcome. `bad` payers emptied their wallet after
 * signing.
 */
interface Lie {
  readonly name: string
  readonly payer: 'good' | 'bad'
  readonly stages: readonly RpcStage[]
  readonly methods?: readonly string[]
  readonly fault: RpcFault
  /** How many calls get a false answer; default: all. */
  readonly times?: number
  /** The final answers that the signature may get once the node is honest again. */
  readonly ends: readonly string[]
  readonly upstreamCalls: number
  /** Number of settlements that the chain reverted. */
  readonly reverted: number
  readonly worst: string
  /** The payment cannot end while the node lies: the node is healed once the lie was met and a caller was deferred. */
  readonly isEndless?: true
  /** Delays every later account nonce, so the quick run skips it. */
  readonly isSlow?: true
  /** Possibly never requested while nothing is wrong. */
  readonly isOptional?: true
}

/** A little longer than the API remembers a refused payment. */
const REMEMBERED_MS = 11_000

const REVERTS: RpcFault = { kind: 'forge', answer: { error: { code: 3, message: 'execution reverted' } } }
/** Also a large number, where a balance is asked for. */
const SUCCEEDS: RpcFault = { kind: 'forge', answer: { result: `0x${'0'.repeat(32)}${'f'.repeat(32)}` } }

const NO_RECEIPT: RpcFault = { kind: 'forge', answer: { result: null } }

/** A single answer that would fail a valid payment: the call is repeated. */
const SINGLE_LIES = (['verify', 'recheck', 'prepare'] as const).map((stage): Lie => ({
  name: `${stage}: one eth_call reverts although the payment is valid`,
  payer: 'good',
  stages: [stage],
  methods: ['eth_call'],
  times: 1,
  fault: REVERTS,
  ends: ['200'],
  upstreamCalls: 1,
  reverted: 0,
  worst: 'none: an unexplained revert is read again',
}))

const LIES: readonly Lie[] = [
  ...SINGLE_LIES,
  {
    name: 'verify: every eth_call reverts although the payment is valid',
    payer: 'good',
    stages: ['verify'],
    fault: REVERTS,
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a 402 before anything was charged; the same signature is valid again afterwards',
  },
  {
    name: 'verify: eth_call succeeds although the payment is invalid',
    payer: 'bad',
    stages: ['balance', 'verify'],
    fault: SUCCEEDS,
    ends: ['402 insufficient_funds'],
    upstreamCalls: 0,
    reverted: 0,
    worst: 'a job that the worker’s own check rejects',
  },
  {
    name: 'verify, re-check: eth_call succeeds although the payment is invalid',
    payer: 'bad',
    stages: ['balance', 'verify', 'recheck'],
    fault: SUCCEEDS,
    ends: ['402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'one provider call, its result withheld',
  },
  {
    name: 'every eth_call succeeds although the payment is invalid (a node of another chain)',
    payer: 'bad',
    stages: ['balance', 'verify', 'recheck', 'prepare'],
    fault: SUCCEEDS,
    ends: ['402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 1,
    worst: 'one provider call and one reverted transaction, its result withheld',
  },
  {
    name: 're-check: every eth_call reverts although the payment is valid',
    payer: 'good',
    stages: ['recheck'],
    fault: REVERTS,
    ends: ['402 payment_rejected'],
    upstreamCalls: 0,
    reverted: 0,
    worst: 'an uncharged failure; a fresh signature is served',
  },
  {
    name: 'prepare: every eth_call reverts although the charge is valid',
    payer: 'good',
    stages: ['prepare'],
    fault: REVERTS,
    ends: ['200', '402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld; a fresh signature pays for it without another provider call',
  },
  {
    name: 'confirm: the receipt reports a revert although the transaction succeeded',
    payer: 'good',
    stages: ['confirm'],
    methods: ['eth_getTransactionReceipt'],
    fault: lieAbout((receipt) => ({ ...receipt, status: '0x0', logs: [] })),
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld while the node contradicts itself',
    isEndless: true,
  },
  {
    name: 'confirm: no receipt although the transaction is mined',
    payer: 'good',
    stages: ['confirm'],
    methods: ['eth_getTransactionReceipt'],
    fault: NO_RECEIPT,
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld while the node lies',
    isEndless: true,
  },
  {
    name: 'confirm: the receipt reports success without logs',
    payer: 'good',
    stages: ['confirm'],
    methods: ['eth_getTransactionReceipt'],
    fault: lieAbout((receipt) => ({ ...receipt, logs: [] })),
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld while the node contradicts itself',
    isEndless: true,
  },
  {
    name: 'confirm: the receipt’s block is an hour old',
    payer: 'good',
    stages: ['confirm'],
    methods: ['eth_getTransactionReceipt'],
    fault: lieAbout((receipt) => ({
      ...receipt,
      logs: (receipt['logs'] as Record<string, unknown>[]).map((log) => ({
        ...log,
        blockTimestamp: toHex(Number(log['blockTimestamp']) - 3600),
      })),
    })),
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a wrong settlement time on the receipt',
  },
]

/** These affect all payers, at least through the account nonces queued behind them, so they run one at a time. */
const SHARED_LIES: readonly Lie[] = [
  {
    name: 'broadcast: “already known” for an unknown transaction',
    payer: 'good',
    stages: ['broadcast'],
    fault: { kind: 'error', code: -32_000, message: 'already known' },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a delay: the transaction is sent again',
    isEndless: true,
    isSlow: true,
  },
  {
    name: 'broadcast: a hash is returned and the transaction dropped',
    payer: 'good',
    stages: ['broadcast'],
    fault: { kind: 'forge', answer: { result: `0x${'1'.repeat(64)}` } },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a delay: the transaction is sent again',
    isEndless: true,
    isSlow: true,
  },
  {
    name: 'terms: eth_getTransactionCount is always 0',
    payer: 'good',
    stages: ['terms'],
    methods: ['eth_getTransactionCount'],
    fault: { kind: 'forge', answer: { result: '0x0' } },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'none: the ledger counts nonces itself',
    isOptional: true,
  },
  {
    name: 'terms: the latest block is an hour old',
    payer: 'good',
    stages: ['terms'],
    methods: ['eth_getBlockByNumber'],
    fault: lieAbout((block) => ({ ...block, timestamp: toHex(Number(block['timestamp']) - 3600) })),
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a wrong settlement time on the receipt where the logs contain none',
    isOptional: true,
  },
  {
    name: 'terms: another chain id',
    payer: 'good',
    stages: ['terms'],
    methods: ['eth_chainId'],
    fault: { kind: 'forge', answer: { result: '0x1' } },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'none: transactions are signed for the configured chain; /readyz reports it',
    isOptional: true,
  },
]

/** The result of one lie. */
export interface RpcLieRow {
  readonly lie: string
  /** The answers while the node lied, then those after it was healed, each without repetitions. */
  readonly lied: string
  readonly honest: string
  /** The answers to a fresh signature for the same key, when one was asked for. */
  readonly fresh: string
  readonly upstreamCalls: number
  readonly transfers: number
  readonly reverted: number
  readonly worst: string
  readonly violations: readonly string[]
}

/** Runs each lie with a separate payment; then the node is honest again and the caller follows the retry advice. */
export async function runRpcLies({ quick }: { quick: boolean }): Promise<readonly RpcLieRow[]> {
  const isIncluded = (lie: Lie) => !(quick && lie.isSlow)
  // A lie is about one payment's own simulation and receipt, which several share with the contract.
  const stack = await startWatchedStack({ settlementContract: false })
  try {
    const ready: { lie: Lie; chat: SignedChat }[] = []
    const isAboutBalance = ({ stages }: Lie) => stages.includes('balance')
    for (const lie of LIES.filter((one) => isIncluded(one) && !isAboutBalance(one)))
      ready.push({ lie, chat: await signedBy(stack, lie) })
    const rows = await Promise.all(ready.map(({ lie, chat }) => runLie(stack, lie, chat)))
    // Payers who arrive together share the call that reads their balances.
    for (const lie of [...LIES.filter(isAboutBalance), ...SHARED_LIES].filter(isIncluded))
      rows.push(await runLie(stack, lie, await signedBy(stack, lie)))
    return rows
  } finally {
    await stack.stop()
  }
}

async function signedBy(stack: WatchedStack, { payer: kind }: Lie): Promise<SignedChat> {
  const { sandbox } = stack
  if (kind === 'good') return await signChat(sandbox.info.baseUrl, await fundedPayer(stack))
  const spender = await createPayer(sandbox.info.rpcUrl, { approved: true })
  const chat = await signChat(sandbox.info.baseUrl, spender)
  await spender.spendAll()
  return chat
}

async function runLie({ sandbox, rpc }: WatchedStack, lie: Lie, chat: SignedChat): Promise<RpcLieRow> {
  const { baseUrl } = sandbox.info
  const payer = lie.stages.includes('terms') ? null : chat.payer.account.address
  const { stages, methods, times, fault } = lie
  const armed = rpc.arm({ payer, stages, fault, ...(methods ? { methods } : {}), ...(times ? { times } : {}) })
  const lied: ChatAnswer[] = []
  await askUntilPaid(baseUrl, chat, lied, () => lie.isEndless === true && armed.hits > 0)
  rpc.heal(armed)
  // A refusal by the chain is remembered for ten seconds.
  if (lied.at(-1)?.status === 402) await delay(REMEMBERED_MS)
  const honest: ChatAnswer[] = []
  const isReview = () => honest.at(-1)?.code === 'settlement_under_review'
  await askUntilPaid(baseUrl, chat, honest)
  const last = honest.at(-1)
  const fresh: ChatAnswer[] = []
  if (last?.retry === 'new_payment' && lie.payer === 'good')
    await askUntilPaid(baseUrl, await signChat(baseUrl, chat.payer, chat), fresh)
  const { upstreamCalls, transfers } = await countFor(sandbox, chat)
  const reverted = await countReverted(sandbox, chat)
  const violations: string[] = []
  const ended = last ? `${last.status} ${last.code}`.trim() : 'nothing'
  if (!lie.ends.includes(ended)) violations.push(`ended with ${ended}`)
  if (lie.times === 1 && lied.some(({ status }) => status === 402)) violations.push('a 402 for one wrong answer')
  if (armed.hits === 0 && !lie.isOptional) violations.push('no call met the lie')
  if (transfers.length > 1) violations.push(`${transfers.length} charges`)
  const released = [...lied, ...honest, ...fresh].some(({ status }) => status === 200)
  if (released && transfers.length === 0) violations.push('released without a transfer')
  if (!released && transfers.length > 0 && !isReview()) violations.push('charged and never released')
  if (lie.payer === 'good' && fresh.length > 0 && fresh.at(-1)?.status !== 200)
    violations.push('a fresh signature was not served')
  if (reverted > lie.reverted) violations.push(`${reverted} reverted transactions`)
  const freshCalls = fresh.length > 0 ? 1 : lie.upstreamCalls
  if (upstreamCalls > Math.max(lie.upstreamCalls, freshCalls)) violations.push(`${upstreamCalls} provider calls`)
  return {
    lie: lie.name,
    lied: distinct(lied),
    honest: distinct(honest),
    fresh: distinct(fresh),
    upstreamCalls,
    transfers: transfers.length,
    reverted,
    worst: lie.worst,
    violations,
  }
}

async function countReverted(sandbox: WatchedStack['sandbox'], { idempotencyKey }: SignedChat): Promise<number> {
  const rows = await sandbox.sql<{ hash: `0x${string}` }>(
    `SELECT hash FROM settlements JOIN jobs ON jobs.id = job_id JOIN settlement_transactions AS signed
       ON signed.settlement_id = settlements.id OR signed.batch_id = settlements.batch_id
         OR signed.batch_id = ANY(settlements.earlier_batches)
     WHERE jobs.idempotency_key = $1`,
    [idempotencyKey],
  )
  const receipts = await Promise.all(
    rows.map(({ hash }) => sandbox.chain.client.getTransactionReceipt({ hash }).catch(() => null)),
  )
  return receipts.filter((receipt) => receipt?.status === 'reverted').length
}

/** Runs `npm run campaign -- rpc-lies`. */
export async function run(): Promise<number> {
  const rows = [...(await runRpcLies({ quick: false })), ...(await runBatchLies({ quick: false }))]
  for (const row of rows) console.log(row)
  return rows.every(({ violations }) => violations.length === 0) ? 0 : 1
}
