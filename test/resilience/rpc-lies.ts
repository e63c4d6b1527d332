import { toHex } from 'viem'
import type { RpcAnswer, RpcFault } from '../support/chain/rpc-proxy.ts'
import { createChainPayer } from '../support/payer/chain-payer.ts'
import { type ChatAnswer, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { askUntilPaid, countFor, distinct, fundedPayer, startWatchedStack, type WatchedStack } from './rpc-faults.ts'
import type { RpcStage } from './rpc-watch.ts'

/** One lie, repeated until the payment has its end, and its worst outcome. `bad` payers have emptied their wallet after they signed. */
interface Lie {
  readonly name: string
  readonly payer: 'good' | 'bad'
  readonly stages: readonly RpcStage[]
  readonly methods?: readonly string[]
  readonly fault: RpcFault
  /** How many calls are lied about; every one, as long as the node lies, when left out. */
  readonly times?: number
  /** How the payment ends for the signature that met the lie, once the node is honest again. */
  readonly ends: readonly string[]
  readonly upstreamCalls: number
  /** Settlements that the chain reverted. */
  readonly reverted: number
  readonly worst: string
  /** The payment has no end while the lie lasts: it ends once it was heard and a caller was put off. */
  readonly isEndless?: true
  /** Holds up every later account nonce for a while, so the quick run leaves it out. */
  readonly isSlow?: true
  /** Nobody may ask for it while all is well. */
  readonly isUnheard?: true
}

const reverts: RpcFault = { kind: 'forge', answer: { error: { code: 3, message: 'execution reverted' } } }
const succeeds: RpcFault = { kind: 'forge', answer: { result: '0x' } }

function lieAbout(change: (result: Record<string, unknown>) => unknown): RpcFault {
  const tell = (truth: RpcAnswer): RpcAnswer =>
    'result' in truth && typeof truth.result === 'object' && truth.result !== null
      ? { result: change(truth.result as Record<string, unknown>) }
      : truth
  return { kind: 'lie', tell }
}

const noReceipt: RpcFault = { kind: 'forge', answer: { result: null } }

/** One answer that a good payment would fail by: it is looked at once more. */
const TOLD_ONCE = (['verify', 'recheck', 'prepare'] as const).map(
  (stage): Lie => ({
    name: `${stage}: one eth_call reverts although the payment is good`,
    payer: 'good',
    stages: [stage],
    methods: ['eth_call'],
    times: 1,
    fault: reverts,
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'none: what nothing explains is asked once more',
  }),
)

const LIES: readonly Lie[] = [
  ...TOLD_ONCE,
  {
    name: 'verify: every eth_call reverts although the payment is good',
    payer: 'good',
    stages: ['verify'],
    fault: reverts,
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a 402 before anything was taken; the same signature is good again afterwards',
  },
  {
    name: 'verify: eth_call succeeds although the payment is bad',
    payer: 'bad',
    stages: ['verify'],
    fault: succeeds,
    ends: ['402 insufficient_funds'],
    upstreamCalls: 0,
    reverted: 0,
    worst: 'a job that the worker’s own look refuses',
  },
  {
    name: 'verify, re-check: eth_call succeeds although the payment is bad',
    payer: 'bad',
    stages: ['verify', 'recheck'],
    fault: succeeds,
    ends: ['402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'one provider call, its result withheld',
  },
  {
    name: 'every eth_call succeeds although the payment is bad (a node of another chain)',
    payer: 'bad',
    stages: ['verify', 'recheck', 'prepare'],
    fault: succeeds,
    ends: ['402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 1,
    worst: 'one provider call and one reverted transaction, its result withheld',
  },
  {
    name: 're-check: every eth_call reverts although the payment is good',
    payer: 'good',
    stages: ['recheck'],
    fault: reverts,
    ends: ['402 payment_rejected'],
    upstreamCalls: 0,
    reverted: 0,
    worst: 'an uncharged failure; a fresh signature is served',
  },
  {
    name: 'prepare: every eth_call reverts although the charge is good',
    payer: 'good',
    stages: ['prepare'],
    fault: reverts,
    ends: ['200', '402 settlement_failed'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld; a fresh signature pays for it without another provider call',
  },
  {
    name: 'confirm: the receipt tells a revert although it succeeded',
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
    name: 'confirm: no receipt although it is mined',
    payer: 'good',
    stages: ['confirm'],
    methods: ['eth_getTransactionReceipt'],
    fault: noReceipt,
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'the result is withheld while the node lies',
    isEndless: true,
  },
  {
    name: 'confirm: the receipt tells success without logs',
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

/** These concern everybody, at least by the account nonces that wait behind them, so one after another. */
const LIES_TO_ALL: readonly Lie[] = [
  {
    name: 'broadcast: “already known” without having it',
    payer: 'good',
    stages: ['broadcast'],
    fault: { kind: 'error', code: -32_000, message: 'already known' },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'a delay: it is sent again',
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
    worst: 'a delay: it is sent again',
    isEndless: true,
    isSlow: true,
  },
  {
    name: 'terms: eth_getTransactionCount is 0 whatever was sent',
    payer: 'good',
    stages: ['terms'],
    methods: ['eth_getTransactionCount'],
    fault: { kind: 'forge', answer: { result: '0x0' } },
    ends: ['200'],
    upstreamCalls: 1,
    reverted: 0,
    worst: 'none: the ledger counts itself',
    isUnheard: true,
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
    worst: 'a wrong settlement time on the receipt, where the logs do not tell it',
    isUnheard: true,
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
    worst: 'none: transactions are signed for our own chain; /readyz tells it',
    isUnheard: true,
  },
]

/** What one lie led to. */
export interface RpcLieRow {
  readonly lie: string
  /** While the node lied, then from the honest one, each without repetitions. */
  readonly lied: string
  readonly honest: string
  /** Whether a fresh signature for the same key was asked for, and its answer. */
  readonly fresh: string
  readonly upstreamCalls: number
  readonly transfers: number
  readonly reverted: number
  readonly worst: string
  readonly violations: readonly string[]
}

/** Each lie is met by a payment of its own, then the node is honest again and the caller does as he was told. */
export async function runRpcLies({ quick }: { quick: boolean }): Promise<readonly RpcLieRow[]> {
  const told = (lie: Lie) => !(quick && lie.isSlow)
  const stack = await startWatchedStack()
  try {
    const ready: { lie: Lie; chat: SignedChat }[] = []
    for (const lie of LIES.filter(told)) ready.push({ lie, chat: await signedBy(stack, lie) })
    const rows = await Promise.all(ready.map(({ lie, chat }) => tellLie(stack, lie, chat)))
    for (const lie of LIES_TO_ALL.filter(told)) rows.push(await tellLie(stack, lie, await signedBy(stack, lie)))
    return rows
  } finally {
    await stack.stop()
  }
}

async function signedBy(stack: WatchedStack, { payer: kind }: Lie): Promise<SignedChat> {
  const { sandbox } = stack
  if (kind === 'good') return await signChat(sandbox.info.baseUrl, await fundedPayer(stack))
  const devnet = { rpcUrl: sandbox.info.rpcUrl, ...sandbox.chain } as never
  const spender = await createChainPayer(devnet)
  await spender.approve()
  const chat = await signChat(sandbox.info.baseUrl, { account: spender.account, rpcUrl: sandbox.info.rpcUrl })
  await spender.spend(1_000_000n)
  return chat
}

async function tellLie({ sandbox, rpc }: WatchedStack, lie: Lie, chat: SignedChat): Promise<RpcLieRow> {
  const { baseUrl } = sandbox.info
  const payer = lie.stages.includes('terms') ? null : chat.payer.account.address
  const { stages, methods, times, fault } = lie
  const armed = rpc.arm({ payer, stages, fault, ...(methods ? { methods } : {}), ...(times ? { times } : {}) })
  const lied: ChatAnswer[] = []
  await askUntilPaid(baseUrl, chat, lied, () => lie.isEndless === true && armed.hits > 0)
  rpc.heal(armed)
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
  if (armed.hits === 0 && !lie.isUnheard) violations.push('the lie was never told')
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
    `SELECT hash FROM settlement_transactions JOIN settlements ON settlements.id = settlement_id
     JOIN jobs ON jobs.id = settlements.job_id WHERE jobs.idempotency_key = $1`,
    [idempotencyKey],
  )
  const receipts = await Promise.all(
    rows.map(({ hash }) => sandbox.chain.client.getTransactionReceipt({ hash }).catch(() => null)),
  )
  return receipts.filter((receipt) => receipt?.status === 'reverted').length
}

/** `npm run campaign -- rpc-lies` */
export async function run(): Promise<number> {
  const rows = await runRpcLies({ quick: false })
  for (const row of rows) console.log(row)
  return rows.every(({ violations }) => violations.length === 0) ? 0 : 1
}
