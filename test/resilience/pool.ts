import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type LimitedPool, limitPool, RETH_SLOTS } from '../support/chain/limited-pool.ts'
import { type RpcProxy, startRpcProxy } from '../support/chain/rpc-proxy.ts'
import { payChatPatiently, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { startStandaloneSandbox, WITHOUT_BUDGETS } from '../support/processes/test-sandbox.ts'

export const HELP = `Usage: npm run campaign -- pool [--seconds 60] [--rate 20] [--calls-per-second 300] [--only direct|contract]

  Calls at a steady rate while the node holds 16 pending transactions of a sender, mines a block every two seconds and
  answers 429 to more than so many calls a second, with and without the settlement contract.`

const BLOCK_SECONDS = 2
const PAYERS = 10
const USDC_OF_A_PAYER = 100_000_000n
/** Without the contract a key settles eight calls a second: the last caller waits for all that came before. */
const CALLER_PATIENCE_MS = 1_200_000
const MOST_SENDS_OF_A_CHARGE = 2

export interface PoolOptions {
  readonly seconds: number
  readonly rate: number
  readonly callsPerSecond: number
  readonly settlementContract: boolean
}

export interface PoolReport {
  readonly way: 'through the contract' | 'by the key'
  readonly calls: number
  readonly results: number
  readonly charges: number
  readonly sendsOfACharge: number
  readonly refusedSends: number
  readonly mostHeld: number
  readonly reads: number
  readonly limitedReads: number
  readonly limitedSends: number
  /** From the first call to the last answer. */
  readonly seconds: number
  readonly answers: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

/** Calls at a steady rate, whatever the earlier ones wait for, until each caller has its final answer. */
export async function runPool({ seconds, rate, callsPerSecond, settlementContract }: PoolOptions): Promise<PoolReport> {
  const limited = Promise.withResolvers<{ proxy: RpcProxy; pool: LimitedPool }>()
  const sandbox = await startStandaloneSandbox({
    settlementContract,
    blockTimeSeconds: BLOCK_SECONDS,
    connections: async (real) => {
      const proxy = await startRpcProxy(real.rpcUrl)
      limited.resolve({ proxy, pool: limitPool(proxy, real.rpcUrl, { callsPerSecond }) })
      return { ...real, rpcUrl: proxy.url }
    },
    apiEnvironment: WITHOUT_BUDGETS,
    workerEnvironment: WITHOUT_BUDGETS,
  })
  const { proxy, pool } = await limited.promise
  try {
    const { baseUrl, rpcUrl, payTo } = sandbox.info
    const payers = await Promise.all(
      Array.from({ length: PAYERS }, () => createPayer(rpcUrl, { usdcAtomic: USDC_OF_A_PAYER, approved: true })),
    )
    const startedAt = performance.now()
    const calls = Array.from({ length: seconds * rate }, async (_, call) => {
      await delay((call * 1000) / rate)
      const payer = payers[call % PAYERS]
      if (!payer) throw new Error('there is no payer')
      return await payChatPatiently([baseUrl], await signPatiently(baseUrl, payer), CALLER_PATIENCE_MS)
    })
    const answered = await Promise.all(calls)
    const took = performance.now() - startedAt
    const last = answered.map((answers) => answers.at(-1)?.status ?? 0)
    const results = last.filter((status) => status === 200).length
    const charges = (await sandbox.chain.transfersTo(payTo)).length
    const report = {
      way: settlementContract ? ('through the contract' as const) : ('by the key' as const),
      calls: calls.length,
      results,
      charges,
      sendsOfACharge: pool.sends / charges,
      refusedSends: pool.refusals,
      mostHeld: pool.mostHeld,
      reads: proxy.calls.length - pool.sends,
      limitedReads: pool.limited.reads,
      limitedSends: pool.limited.sends,
      seconds: Math.round(took / 1000),
      answers: countOf(answered.flat().map(({ status, code }) => `${status} ${code}`.trim())),
    }
    return { ...report, violations: violationsOf(report) }
  } finally {
    await sandbox.stop()
    await proxy.stop()
  }
}

/** Asks again for a challenge that an overloaded service does not give. */
async function signPatiently(baseUrl: string, payer: Payer): Promise<SignedChat> {
  for (const giveUpAt = performance.now() + CALLER_PATIENCE_MS; ; await delay(1000)) {
    try {
      return await signChat(baseUrl, payer)
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
    }
  }
}

function violationsOf(report: Omit<PoolReport, 'violations'>): readonly string[] {
  const { calls, results, charges, sendsOfACharge, mostHeld, limitedReads } = report
  return [
    ...(results === calls && charges === calls ? [] : [`${results} results and ${charges} charges of ${calls} calls`]),
    ...(sendsOfACharge <= MOST_SENDS_OF_A_CHARGE ? [] : [`${sendsOfACharge.toFixed(1)} sends of a charge`]),
    ...(mostHeld <= RETH_SLOTS ? [] : [`the node held ${mostHeld} transactions of a key`]),
    ...(limitedReads === 0 ? [] : [`${limitedReads} reads were refused`]),
  ]
}

function countOf(names: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(names, (name) => name)].map(([name, { length }]) => [name, length] as const),
  )
}

/** Runs `npm run campaign -- pool`. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string', default: '60' },
      rate: { type: 'string', default: '20' },
      'calls-per-second': { type: 'string', default: '300' },
      only: { type: 'string' },
    },
  })
  const reports: PoolReport[] = []
  for (const settlementContract of [true, false]) {
    if (values.only === (settlementContract ? 'direct' : 'contract')) continue
    const [seconds, rate, callsPerSecond] = [values.seconds, values.rate, values['calls-per-second']].map(Number)
    if (!seconds || !rate || !callsPerSecond) throw new Error(HELP)
    const report = await runPool({ seconds, rate, callsPerSecond, settlementContract })
    console.log(report)
    reports.push(report)
  }
  return reports.every(({ violations }) => violations.length === 0) ? 0 : 1
}
