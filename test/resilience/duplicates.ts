import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import {
  type ChatAnswer,
  payChatPatiently,
  type SignedChat,
  signChat,
  upstreamCallsByKey,
} from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { startStandaloneSandbox, WITHOUT_BUDGETS } from '../support/processes/test-sandbox.ts'
import { type OuterServiceKind, parseOn, startCampaignServices } from './stack/outer-services.ts'

/** Ten to each API. */
const DUPLICATES = 20
const PAYERS = 4
const FUNDS_ATOMIC = 1_000_000_000n
/** In every third round each duplicate has a fresh signature, as the official clients retry. */
const FRESH_EVERY = 3

export interface DuplicatesReport {
  readonly rounds: number
  readonly freshlySigned: number
  readonly upstreamCalls: number
  readonly transfers: number
  readonly seconds: number
  /** Latency of a round's last answer. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly violations: readonly string[]
}

interface Round {
  readonly idempotencyKey: string
  readonly transaction: string
  readonly lastAnswerMs: number
  readonly violations: readonly string[]
}

/** Sends rounds of simultaneous duplicates of one paid call to two APIs with two workers and reports violations. */
export async function runDuplicates({
  rounds,
  on = [],
  onProgress = () => undefined,
}: {
  readonly rounds: number
  readonly on?: readonly OuterServiceKind[]
  readonly onProgress?: (line: string) => void
}): Promise<DuplicatesReport> {
  const services = await startCampaignServices(on)
  const sandbox = await startStandaloneSandbox({
    outerServices: services.settings,
    apis: 2,
    workers: 2,
    apiEnvironment: { ...WITHOUT_BUDGETS, REQUESTS_PER_MINUTE: '1000000' },
    // No worker is lost here, and a starved one must keep its jobs.
    workerEnvironment: { ...WITHOUT_BUDGETS, LEASE_SECONDS: '60' },
  })
  try {
    const { info, chain } = sandbox
    const payers: Payer[] = []
    for (let payer = 0; payer < PAYERS; payer += 1)
      payers.push(await createPayer(info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true }))
    const played: Round[] = []
    const startedAt = performance.now()
    for (let round = 0; round < rounds; round += 1) {
      const payer = payers[round % PAYERS]
      if (!payer) throw new Error('there are no payers')
      played.push(await playRound(info.baseUrls, payer, round % FRESH_EVERY === FRESH_EVERY - 1))
      if (round % 100 === 99) onProgress(`${round + 1} rounds in ${seconds(startedAt)} s`)
    }
    const took = seconds(startedAt)
    const calls = await upstreamCallsByKey(info)
    const transfers = await chain.transfersTo(info.payTo)
    const violations = played.flatMap(({ idempotencyKey, violations, transaction }) => [
      ...violations,
      ...(calls.get(idempotencyKey) === 1 ? [] : [`${calls.get(idempotencyKey) ?? 0} calls for ${idempotencyKey}`]),
      ...(transfers.filter(({ transactionHash }) => transactionHash === transaction).length === 1
        ? []
        : [`no single transfer in ${transaction} for ${idempotencyKey}`]),
    ])
    const transactions = new Set(played.map(({ transaction }) => transaction)).size
    if (transactions !== rounds) violations.push(`${transactions} transactions for ${rounds} rounds`)
    if (transfers.length !== rounds) violations.push(`${transfers.length} transfers for ${rounds} rounds`)
    const times = played.map(({ lastAnswerMs }) => lastAnswerMs).toSorted((one, other) => one - other)
    return {
      rounds,
      freshlySigned: Math.floor(rounds / FRESH_EVERY),
      upstreamCalls: [...calls.values()].reduce((sum, count) => sum + count, 0),
      transfers: transfers.length,
      seconds: took,
      p50Ms: times[Math.floor(times.length * 0.5)] ?? 0,
      p99Ms: times[Math.floor(times.length * 0.99)] ?? 0,
      violations,
    }
  } finally {
    await sandbox.stop()
    await services.stop()
  }
}

async function playRound(baseUrls: readonly string[], payer: Payer, isFresh: boolean): Promise<Round> {
  const idempotencyKey = randomUUID()
  const [first = '', second = ''] = baseUrls
  const signed = await signChat(first, payer, { idempotencyKey })
  const chats: SignedChat[] = [signed]
  while (chats.length < DUPLICATES) chats.push(isFresh ? await signChat(second, payer, { idempotencyKey }) : signed)
  const startedAt = performance.now()
  const all = await Promise.all(chats.map((chat, index) => payChatPatiently([index % 2 === 0 ? first : second], chat)))
  const lastAnswerMs = Math.round(performance.now() - startedAt)
  const answers = all.map((one) => one.at(-1) as ChatAnswer)
  const distinct = (read: (answer: ChatAnswer) => unknown) => new Set(answers.map(read)).size
  const statuses = [...new Set(answers.map(({ status, code }) => `${status} ${code}`.trim()))]
  const violations = [
    ...(statuses.join() === '200' ? [] : [`answers ${statuses.join(', ')} for ${idempotencyKey}`]),
    ...(distinct(({ body }) => body) === 1 ? [] : [`bodies differ for ${idempotencyKey}`]),
    ...(distinct(({ receiptId }) => receiptId) === 1 ? [] : [`receipts differ for ${idempotencyKey}`]),
    ...(distinct(({ transaction }) => transaction) === 1 ? [] : [`transactions differ for ${idempotencyKey}`]),
  ]
  return { idempotencyKey, transaction: answers[0]?.transaction ?? '', lastAnswerMs, violations }
}

function seconds(since: number): number {
  return Math.round((performance.now() - since) / 100) / 10
}

export const HELP = `Usage: npm run campaign -- duplicates [--rounds 1000] [--on redis,s3]

Sends simultaneous duplicates of paid requests to two APIs.`

/** Runs the command. Returns exit code 1 for any violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { rounds: { type: 'string', default: '1000' }, on: { type: 'string', default: '' } },
  })
  const report = await runDuplicates({
    rounds: Number(values.rounds),
    on: parseOn(values.on),
    onProgress: (line) => console.log(line),
  })
  console.table([{ ...report, violations: report.violations.length }])
  for (const violation of report.violations.slice(0, 20)) console.log(violation)
  return report.violations.length === 0 ? 0 : 1
}
