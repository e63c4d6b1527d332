import { setTimeout as delay } from 'node:timers/promises'
import { toEventSelector } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { PATIENT_SETTINGS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type CampaignStack, startCampaignStack } from '../stack/stack.ts'
import { beg, COIN_ATOMIC, COINS, circulate, createAll, newWallet, rob, SLOW_RULE } from './circulating-coins.ts'
import { clientOfNetwork } from './client-address.ts'
import { type FirstCalls, makeFirstCalls } from './first-calls.ts'

export interface NewcomersOptions {
  readonly seconds: number
  readonly onProgress?: (line: string) => void
}

/** What strangers with circulating coins cost the operator, and whom else. Atomic USDC and wei. */
export interface NewcomersReport {
  readonly thefts: Readonly<Record<string, number>>
  readonly permits: Readonly<Record<string, number>>
  readonly loss: bigint
  readonly lossOfWallet: bigint
  readonly robbedBy: number
  /** Permits that were submitted for owners who were never charged, and their gas. */
  readonly unpaidPermits: number
  readonly unpaidPermitGasWei: bigint
  readonly honestCallers: number
  readonly violations: readonly string[]
}

/** The highest price of one call, and what all may lose in a day. */
const MOST_OF_WALLET = 770_000n
const MOST_OF_DAY = 20_000_000n
const PERMIT_COIN_ATOMIC = 100_000n
const PERMIT_COINS = 2
const HONEST_CALLERS = 8
const APPROVAL = toEventSelector('event Approval(address indexed owner, address indexed spender, uint256 value)')

/** Lets thieves and beggars work with a few coins next to people whose first calls are large, under default limits. */
export async function runNewcomers({
  seconds,
  onProgress = () => undefined,
}: NewcomersOptions): Promise<NewcomersReport> {
  const limits = { UNCHARGED_BUDGET_USDC: '1', ...PATIENT_SETTINGS }
  const stack = await startCampaignStack({
    apis: 1,
    workers: 1,
    approvedPayers: 0,
    sponsoredPayers: 0,
    blockTimeSeconds: 1,
    apiEnvironment: {
      ...limits,
      NEW_PAYER_DAILY_LOSS_USDC: '20',
      REQUESTS_PER_MINUTE: '6000',
      HOLD_SECONDS: '60',
      MAXIMUM_QUEUE_AGE_SECONDS: '3600',
      DECODER_WAITING: '1000',
      MAXIMUM_HEAD_AGE_SECONDS: '0',
    },
    workerEnvironment: {
      ...limits,
      LEASE_SECONDS: '60',
      PROVIDER_TIMEOUT_SECONDS: '60',
      MAXIMUM_HEAD_AGE_SECONDS: '0',
    },
  })
  try {
    await stack.setFaults([SLOW_RULE])
    onProgress(`${HONEST_CALLERS} honest callers receive their money`)
    const honest = await createAll(HONEST_CALLERS, () => newWallet(stack, 1_000_000n))
    const coins = await createAll(COINS, () => newWallet(stack, COIN_ATOMIC))
    const beggars = await createAll(PERMIT_COINS, () =>
      createPayer(stack.info.rpcUrl, { usdcAtomic: PERMIT_COIN_ATOMIC }),
    )
    onProgress(`${COINS} coins of thieves and ${PERMIT_COINS} of beggars circulate for ${seconds} s`)
    const ended = AbortSignal.timeout(seconds * 1000)
    const [refusals, thefts, permits] = await Promise.all([
      Promise.all(honest.map((payer, index) => callOnce(stack, payer, index, (seconds * 1000) / HONEST_CALLERS))),
      Promise.all(
        coins.map((coin, index) => circulate(ended, coin, index, (wallet, turn) => rob(stack, wallet, turn))),
      ),
      Promise.all(
        beggars.map((coin, index) => circulate(ended, coin, index, (wallet, turn) => beg(stack, wallet, turn))),
      ),
    ])
    onProgress('waiting until everything has ended')
    return await judge(stack, refusals.flat(), count(thefts.flat()), count(permits.flat()))
  } finally {
    await stack.stop()
  }
}

const CALLS: readonly FirstCalls[] = ['an hour’s recording', 'twenty clips in parallel']

/** Lets an honest caller begin at a time of their own, from a network of their own. */
async function callOnce(stack: CampaignStack, payer: Payer, index: number, apartMs: number) {
  await delay(index * apartMs)
  const calls = CALLS[index % CALLS.length] ?? 'twenty clips in parallel'
  return await makeFirstCalls(stack.info, payer, clientOfNetwork(index), calls)
}

async function judge(
  stack: CampaignStack,
  refusals: readonly string[],
  thefts: Readonly<Record<string, number>>,
  permits: Readonly<Record<string, number>>,
): Promise<NewcomersReport> {
  const stuck = await stack.settleDown()
  const losses = await stack.sql<{ lost: string }>(
    `SELECT sum(amount)::numeric(78,0)::text AS lost FROM (
       SELECT payer, charge_amount AS amount FROM jobs WHERE is_owed
       UNION ALL SELECT payer, amount FROM uncharged_work) AS losses GROUP BY payer`,
  )
  const lost = losses.map((row) => BigInt(row.lost))
  const loss = lost.reduce((sum, one) => sum + one, 0n)
  const lossOfWallet = lost.reduce((most, one) => (one > most ? one : most), 0n)
  const unpaid = await readUnpaidPermits(stack)
  return {
    thefts,
    permits,
    loss,
    lossOfWallet,
    robbedBy: lost.length,
    unpaidPermits: unpaid.count,
    unpaidPermitGasWei: unpaid.gasWei,
    honestCallers: HONEST_CALLERS,
    violations: [
      ...refusals.map((refusal) => `an honest newcomer was refused: ${refusal}`),
      ...stuck.map((id) => `job ${id} never ended`),
      ...(lossOfWallet > MOST_OF_WALLET ? [`one wallet cost ${lossOfWallet} of at most ${MOST_OF_WALLET}`] : []),
      ...(loss > MOST_OF_DAY ? [`newcomers cost ${loss} of at most ${MOST_OF_DAY}`] : []),
      ...(unpaid.count > 0 ? [`${unpaid.count} permits were submitted without a charge`] : []),
    ],
  }
}

/** Reads the permits that the settlement keys submitted for owners who were never charged. */
async function readUnpaidPermits(stack: CampaignStack) {
  const { rpcUrl, settlementAddresses } = stack.info
  const paid = await stack.sql<{ payer: string }>("SELECT DISTINCT payer FROM settlements WHERE state = 'confirmed'")
  const charged = new Set(paid.map(({ payer }) => payer))
  const submitters = new Set(settlementAddresses.map((address) => address.toLowerCase()))
  const approvals = await callRpc<{ transactionHash: string; topics: string[] }[]>(rpcUrl, 'eth_getLogs', [
    { address: DEVNET_ADDRESSES.usdc, fromBlock: '0x0', topics: [APPROVAL] },
  ])
  let [count, gasWei] = [0, 0n]
  for (const { transactionHash, topics } of approvals) {
    type Receipt = { from: string; gasUsed: string; effectiveGasPrice: string }
    const receipt = await callRpc<Receipt>(rpcUrl, 'eth_getTransactionReceipt', [transactionHash])
    if (!submitters.has(receipt.from.toLowerCase()) || charged.has(`0x${(topics[1] ?? '').slice(26)}`)) continue
    count += 1
    gasWei += BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice)
  }
  return { count, gasWei }
}

function count(outcomes: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries([...Map.groupBy(outcomes, (outcome) => outcome)].map(([name, all]) => [name, all.length]))
}
