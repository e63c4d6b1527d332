import { setTimeout as delay } from 'node:timers/promises'
import { type Hex, toHex } from 'viem'
import type { RpcFault } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { type ChatAnswer, type SignedChat, signChat } from '../../support/payer/chat-call.ts'
import { askUntilPaid, countFor, distinct, fundedPayer, startWatchedStack, type WatchedStack } from '../rpc-faults.ts'
import { addBatchGate, type BatchGate } from '../stack/batch-gate.ts'
import type { ArmedFault, RpcStage } from '../stack/rpc-watch.ts'
import {
  asFailed,
  type EditLogs,
  inOtherOrder,
  lieAbout,
  lieAboutLogs,
  ofOtherAmount,
  ofOtherContract,
  ofOtherToken,
  toOtherRecipient,
  withoutEvent,
  withoutPayment,
  withoutTransfer,
} from './receipt-lies.ts'

/** What one lie is told about: the calls of a payer whose payment shares a batch, of a key, or of nobody. */
interface Told {
  readonly stages: readonly RpcStage[]
  readonly methods: readonly string[]
  readonly about: 'payer' | 'key' | 'nobody'
  readonly fault: (payer: Hex) => RpcFault
}

/** A lie of the only node about a batch of payments, all of which are valid, repeated until the node is healed. */
interface BatchLie {
  readonly name: string
  readonly told: readonly Told[]
  readonly worst: string
  /** Delays every later account nonce, so the quick run skips it. */
  readonly isSlow?: true
  /** Possibly never requested while nothing is wrong. */
  readonly isOptional?: true
}

const RECEIPT = { stages: ['confirm'], methods: ['eth_getTransactionReceipt'], about: 'payer' } as const
const LOGS = { stages: ['terms'], methods: ['eth_getLogs'], about: 'nobody' } as const
const NOTHING = (result: unknown): RpcFault => ({ kind: 'forge', answer: { result } })

function receiptLie(name: string, edit: EditLogs): BatchLie {
  return {
    name: `the receipt ${name}`,
    told: [{ ...RECEIPT, fault: (payer) => lieAboutLogs(edit, payer) }],
    worst: 'the result is withheld while the node contradicts itself; the others of the batch are served',
  }
}

const REVERTED = lieAbout((receipt) => ({ ...receipt, status: '0x0', logs: [] }))

const BATCH_LIES: readonly BatchLie[] = [
  {
    name: 'the contract lists none of the keys',
    told: [{ stages: ['reasons'], methods: ['eth_call'], about: 'key', fault: () => NOTHING(toHex(0, { size: 32 })) }],
    worst: 'nothing is sent while the node lies',
    isOptional: true,
  },
  receiptLie('has no event of one payment', withoutEvent),
  receiptLie('has no transfer of one payment', withoutTransfer),
  receiptLie('has neither event nor transfer of one payment', withoutPayment),
  receiptLie('has another amount', ofOtherAmount),
  receiptLie('has another recipient', toOtherRecipient),
  receiptLie('has the event of another contract', ofOtherContract),
  receiptLie('has the transfer of another token', ofOtherToken),
  receiptLie('has the logs in another order', inOtherOrder),
  receiptLie('reports a settled payment as failed', asFailed),
  {
    name: 'the receipt reports a revert of the whole batch',
    told: [{ ...RECEIPT, fault: () => REVERTED }],
    worst: 'the results are withheld while the node contradicts itself',
  },
  {
    name: 'the transaction is unknown',
    told: [{ ...RECEIPT, fault: () => NOTHING(null) }],
    worst: 'the results are withheld while the node lies',
  },
  {
    name: 'receipt and log index agree on a revert of the whole batch',
    told: [
      { ...RECEIPT, fault: () => REVERTED },
      { ...LOGS, fault: () => NOTHING([]) },
    ],
    worst: 'the results are withheld, or wait for a review: the payers’ nonces are used',
  },
  {
    name: 'receipt and log index agree that one payment failed',
    told: [
      { ...RECEIPT, fault: (payer) => lieAboutLogs(asFailed, payer) },
      { ...LOGS, fault: () => NOTHING([]) },
    ],
    worst: 'the payer is asked to pay again; the next attempt finds the first charge on chain',
  },
  {
    name: 'blocks have no transactions',
    told: [
      {
        stages: ['terms'],
        methods: ['eth_getBlockByNumber'],
        about: 'nobody',
        fault: () => lieAbout((block) => ({ ...block, transactions: [] })),
      },
    ],
    worst: 'a delay: receipts are read all the same',
  },
  {
    name: 'fees of 1,000 gwei',
    told: [
      {
        stages: ['terms'],
        methods: ['eth_feeHistory'],
        about: 'nobody',
        fault: () => lieAbout((fees) => ({ ...fees, baseFeePerGas: [toHex(10n ** 12n)] })),
      },
    ],
    worst: 'none: fees are limited to the setting',
    isOptional: true,
  },
  {
    name: 'a hash is returned and the batch dropped',
    told: [
      {
        stages: ['broadcast'],
        methods: ['eth_sendRawTransaction'],
        about: 'payer',
        fault: () => NOTHING(`0x${'1'.repeat(64)}`),
      },
    ],
    worst: 'a delay: the transaction is sent again',
    isSlow: true,
  },
]

/** The result of one lie about a batch. */
export interface BatchLieRow {
  readonly lie: string
  /** The size of the batch that it was about. */
  readonly size: number
  readonly hits: number
  /** The answers of all callers while the node lied, and once it was honest, without repetitions. */
  readonly lied: string
  readonly honest: string
  readonly transfers: number
  readonly worst: string
  readonly violations: readonly string[]
}

/** Payments that share a batch; another one goes before them. */
const IN_BATCH = 3
/** The node is healed once this many calls met the lie and each caller was answered. */
const HITS_BEFORE_HEALING = 2
/** For payments that wait at the gate to be prepared. */
const PREPARED_MS = 700
/** A little longer than the API remembers a refused payment. */
const REMEMBERED_MS = 11_000

/** Lets the node tell each lie about a batch of several payments; then it is honest again, and all must be served. */
export async function runBatchLies({ quick }: { quick: boolean }): Promise<readonly BatchLieRow[]> {
  const stack = await startWatchedStack()
  try {
    const gate = await addBatchGate(stack.sandbox)
    const rows: BatchLieRow[] = []
    for (const lie of BATCH_LIES) if (!(quick && lie.isSlow)) rows.push(await runBatchLie(stack, gate, lie))
    return rows
  } finally {
    await stack.stop()
  }
}

interface Caller {
  readonly chat: SignedChat
  readonly lied: ChatAnswer[]
  readonly honest: ChatAnswer[]
  readonly fresh: ChatAnswer[]
}

async function runBatchLie(stack: WatchedStack, gate: BatchGate, lie: BatchLie): Promise<BatchLieRow> {
  const { sandbox, rpc } = stack
  const { baseUrl } = sandbox.info
  const callers: Caller[] = []
  while (callers.length <= IN_BATCH)
    callers.push({ chat: await signChat(baseUrl, await fundedPayer(stack)), lied: [], honest: [], fresh: [] })
  const [opener, victim] = callers
  if (!opener || !victim) throw new Error('a batch needs several callers')
  const isListLie = lie.told.some(({ about }) => about === 'key')
  const armed = isListLie ? arm(stack, lie, victim.chat) : []
  const isEnough = () => armed.length > 0 && armed.every(({ hits }) => hits >= HITS_BEFORE_HEALING)
  const ask = ({ chat, lied }: Caller) => askUntilPaid(baseUrl, chat, lied, isEnough)
  await gate.close()
  const asking = [ask(opener)]
  await untilTrue(() => isListLie || gate.isHolding())
  asking.push(...callers.slice(1).map(ask))
  await untilTrue(async () => isListLie || (await countGenerated(stack)) > IN_BATCH)
  await delay(PREPARED_MS)
  if (!isListLie) armed.push(...arm(stack, lie, victim.chat))
  await gate.open()
  await Promise.all(asking)
  for (const one of armed) rpc.heal(one)
  // A refusal is remembered for ten seconds.
  if (callers.some(({ lied }) => lied.at(-1)?.status === 402)) await delay(REMEMBERED_MS)
  await Promise.all(callers.map((caller) => askHonest(stack, caller)))
  const violations = (await Promise.all(callers.map((caller) => judge(stack, caller)))).flat()
  const size = await readBatchSize(stack, victim.chat)
  if (size < IN_BATCH && !isListLie) violations.push(`the batch had ${size} payments`)
  const hits = armed.reduce((sum, one) => sum + one.hits, 0)
  if (hits === 0 && !lie.isOptional) violations.push('no call met the lie')
  const transfers = await Promise.all(callers.map(async ({ chat }) => (await countFor(sandbox, chat)).transfers.length))
  return {
    lie: lie.name,
    size,
    hits,
    lied: distinct(callers.flatMap(({ lied }) => lied)),
    honest: distinct(callers.flatMap(({ honest, fresh }) => [...honest, ...fresh])),
    transfers: transfers.reduce((sum, count) => sum + count, 0),
    worst: lie.worst,
    violations,
  }
}

function arm({ sandbox, rpc }: WatchedStack, { told }: BatchLie, { payer }: SignedChat): ArmedFault[] {
  const [key = ''] = sandbox.info.settlementAddresses
  return told.map(({ stages, methods, about, fault }) =>
    rpc.arm({
      payer: { payer: payer.address, key, nobody: null }[about],
      stages,
      methods,
      fault: fault(payer.address),
    }),
  )
}

/** Repeats the request until it is served, and pays with a fresh signature if that is asked for. */
async function askHonest({ sandbox }: WatchedStack, { chat, honest, fresh }: Caller): Promise<void> {
  const { baseUrl } = sandbox.info
  await askUntilPaid(baseUrl, chat, honest)
  if (honest.at(-1)?.retry === 'new_payment')
    await askUntilPaid(baseUrl, await signChat(baseUrl, chat.payer, chat), fresh)
}

/** Each is served in the end, for one charge. */
async function judge({ sandbox }: WatchedStack, { chat, lied, honest, fresh }: Caller): Promise<readonly string[]> {
  const { upstreamCalls, transfers } = await countFor(sandbox, chat)
  const answers = [...lied, ...honest, ...fresh]
  const violations: string[] = []
  if (transfers.length !== 1) violations.push(`${transfers.length} charges of one payment`)
  if (upstreamCalls !== 1) violations.push(`${upstreamCalls} provider calls of one payment`)
  const isUnderReview = answers.at(-1)?.code === 'settlement_under_review'
  if (answers.at(-1)?.status !== 200 && !isUnderReview) violations.push(`ended with ${distinct(answers.slice(-1))}`)
  return violations
}

async function countGenerated({ sandbox }: WatchedStack): Promise<number> {
  return (await sandbox.sql("SELECT 1 FROM jobs WHERE state = 'generated'")).length
}

async function readBatchSize({ sandbox }: WatchedStack, { idempotencyKey }: SignedChat): Promise<number> {
  const [row] = await sandbox.sql<{ size: number }>(
    `SELECT max(size) AS size FROM jobs JOIN settlements ON job_id = jobs.id
       JOIN settlement_batches AS batches ON batches.id = batch_id OR batches.id = ANY(earlier_batches)
     WHERE idempotency_key = $1`,
    [idempotencyKey],
  )
  return row?.size ?? 0
}

async function untilTrue(isReached: () => boolean | Promise<boolean>): Promise<void> {
  for (const giveUpAt = performance.now() + PATIENCE_MS; !(await isReached()); await delay(50))
    if (performance.now() > giveUpAt) throw new Error('timed out')
}
