import { setTimeout as delay } from 'node:timers/promises'
import { maxUint256, toEventSelector } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { PATIENT_SETTINGS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import { type CampaignStack, startCampaignStack } from '../stack/stack.ts'
import { sendAttackCall, signAttackCall } from './attack-calls.ts'
import { clientAddress, clientOfNetwork } from './client-address.ts'
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
const COIN_ATOMIC = 770_000n
const PERMIT_COIN_ATOMIC = 100_000n
/** Coins that thieves circulate; their wallets call from four networks. */
const COINS = 12
const PERMIT_COINS = 2
const ADDRESSES = 1000
const HONEST_CALLERS = 8
/** Blocks come each second, and the money of a newcomer has to be there for as many. */
const BALANCE_BLOCKS = 5
const TAKE_LONG = 'take your time'
const LONG_MS = 8000
/** A refusal comes sooner. */
const REFUSAL_MS = 2000
const MAXIMAL = { model: 'textmodel-2.5-pro', max_tokens: 65_536 }
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
      NEW_PAYER_BALANCE_BLOCKS: String(BALANCE_BLOCKS),
      SPONSORED_GAS_DAILY_MAXIMUM: '0.002',
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
    await stack.setFaults([{ fault: 'none', times: 'always', containing: TAKE_LONG, delayMs: LONG_MS }])
    onProgress(`${HONEST_CALLERS} honest callers receive their money`)
    const honest = await createAll(HONEST_CALLERS, () => newWallet(stack, 1_000_000n))
    const coins = await createAll(COINS, () => newWallet(stack, COIN_ATOMIC))
    const beggars = await createAll(PERMIT_COINS, () => createPayer(stack.info.rpcUrl, { usdcAtomic: PERMIT_COIN_ATOMIC }))
    await delay((BALANCE_BLOCKS + 1) * 1000)
    onProgress(`${COINS} coins of thieves and ${PERMIT_COINS} of beggars circulate for ${seconds} s`)
    const ended = AbortSignal.timeout(seconds * 1000)
    const [refusals, thefts, permits] = await Promise.all([
      Promise.all(honest.map((payer, index) => callOnce(stack, payer, index, (seconds * 1000) / HONEST_CALLERS))),
      Promise.all(coins.map((coin, index) => circulate(ended, coin, index, (wallet, turn) => rob(stack, wallet, turn)))),
      Promise.all(beggars.map((coin, index) => circulate(ended, coin, index, (wallet, turn) => beg(stack, wallet, turn)))),
    ])
    onProgress('waiting until everything has ended')
    return await judge(stack, refusals.flat(), count(thefts.flat()), count(permits.flat()))
  } finally {
    await stack.stop()
  }
}

/** Uses a coin in one wallet after the other. */
async function circulate(
  ended: AbortSignal,
  coin: Payer,
  index: number,
  use: (wallet: Payer, turn: number) => Promise<{ readonly outcome: string; readonly next: Payer }>,
): Promise<readonly string[]> {
  const outcomes: string[] = []
  let wallet = coin
  // Every coin at an address of its own, in one of four networks.
  for (let turn = (index * ADDRESSES) / COINS; !ended.aborted; turn += 1) {
    const { outcome, next } = await use(wallet, Math.floor(turn))
    outcomes.push(outcome)
    wallet = next
  }
  return outcomes
}

/** Starts a call of the highest price, and moves the money through a third wallet to the next while the vendor works. */
async function rob(stack: CampaignStack, wallet: Payer, turn: number) {
  const target = { baseUrl: stack.info.baseUrl, rpcUrl: stack.info.rpcUrl }
  const client = clientAddress(turn % ADDRESSES)
  const change = { text: `${TAKE_LONG} and write 45000 words`, fields: MAXIMAL }
  const call = await signAttackCall(target, client, wallet, change)
  if (!call) return { outcome: 'no challenge', next: wallet }
  const [mule, next] = await createAll(2, () => newWallet(stack, 0n))
  if (!mule || !next) throw new Error('no wallets')
  const answered = sendAttackCall(target, client, call)
  const refused = await Promise.race([answered, delay(REFUSAL_MS, null)])
  if (refused?.code === 'funds_too_new') {
    await delay(1000)
    return { outcome: label(refused), next: wallet }
  }
  // A settlement was faster than the thief, who needs another coin.
  if (refused?.code === 'insufficient_funds') return { outcome: label(refused), next: await newWallet(stack, COIN_ATOMIC) }
  await wallet.spend(await wallet.balance(), mule.address)
  await mule.spend(await mule.balance(), next.address)
  return { outcome: label(await answered), next }
}

/** Asks for a permit without gas, and moves the money to the next owner. */
async function beg(stack: CampaignStack, owner: Payer, turn: number) {
  const { baseUrl, rpcUrl } = stack.info
  const deadline = secondsFromNow(3600)
  const signature = await signPermit(owner.account, {
    owner: owner.address,
    spender: DEVNET_ADDRESSES.permit2,
    nonce: 0n,
    deadline,
    amount: maxUint256,
  })
  const permit = { owner: owner.address, value: maxUint256.toString(), deadline: deadline.toString(), signature }
  const sent = { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ permit }) }
  const answer = await clientAddress(turn % ADDRESSES).request(`${baseUrl}/v1/allowances`, sent)
  const { error } = ((await answer?.json().catch(() => null)) ?? {}) as { error?: { code: string } }
  const next = await createPayer(rpcUrl, { usdcAtomic: 0n })
  await owner.spend(await owner.balance(), next.address)
  return { outcome: error?.code ?? String(answer?.status ?? 'unanswered'), next }
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
async function readUnpaidPermits({ info: { rpcUrl, settlementAddresses }, sql }: CampaignStack) {
  const paid = await sql<{ payer: string }>("SELECT DISTINCT payer FROM settlements WHERE state = 'confirmed'")
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

const newWallet = (stack: CampaignStack, usdcAtomic: bigint) =>
  createPayer(stack.info.rpcUrl, { usdcAtomic, approved: true })

function createAll(length: number, create: () => Promise<Payer>): Promise<readonly Payer[]> {
  return Promise.all(Array.from({ length }, create))
}

function label(answer: { readonly status: number; readonly code?: string | null } | null): string {
  return answer ? `${answer.status} ${answer.code ?? ''}`.trim() : 'no answer'
}

function count(outcomes: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries([...Map.groupBy(outcomes, (outcome) => outcome)].map(([name, all]) => [name, all.length]))
}
