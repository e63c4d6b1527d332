import { encodeFunctionData, type Hex, parseAbi, parseSignature, toHex } from 'viem'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../infra/sandbox/devnet.ts'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import { type ChatAnswer, payChat, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer, secondsFromNow } from '../support/payer/custom-payment.ts'
import { countFor, startWatchedStack, told, type WatchedStack } from './rpc-faults.ts'
import { untilReached } from './until-reached.ts'

const ABI = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function invalidateUnorderedNonces(uint256 word, uint256 mask)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)',
])
const FUNDS = 1_000_000n
const ELSEWHERE = '0x000000000000000000000000000000000000dEaD'
/** The one answer of each call is the last word, however long it takes. */
const HOLD_SECONDS = 240

const ATTACKS = ['funds moved', 'allowance revoked', 'nonce burnt', 'permit spent elsewhere'] as const
export type Attack = (typeof ATTACKS)[number]
const MOMENTS = [
  'before verify',
  'before the provider call',
  'before the settlement',
  'in the mempool, with a higher tip',
] as const
type Moment = (typeof MOMENTS)[number]

/** What an attack at one moment led to. */
export interface PayerAttackRow {
  readonly moment: Moment
  readonly attack: Attack
  readonly answer: string
  readonly repeated: string
  readonly upstreamCalls: number
  readonly transfers: number
  /** Whether any answer held the sealed result. */
  readonly released: boolean
}

/** Every attack at every moment, each by a payer of its own; all of one moment at once. */
export async function runPayerAttacks(): Promise<readonly PayerAttackRow[]> {
  const stack = await startWatchedStack({ holdSeconds: HOLD_SECONDS })
  try {
    const rows: PayerAttackRow[] = []
    for (const moment of MOMENTS) {
      const attempts: Attempt[] = []
      for (const attack of ATTACKS) attempts.push({ attack, chat: await signedChat(stack, attack) })
      rows.push(...(await attackAt(stack, moment, attempts)))
    }
    return rows
  } finally {
    await stack.stop()
  }
}

interface Attempt {
  readonly attack: Attack
  readonly chat: SignedChat
}

async function signedChat({ sandbox }: WatchedStack, attack: Attack): Promise<SignedChat> {
  const { rpcUrl, baseUrl } = sandbox.info
  const isSponsored = attack === 'permit spent elsewhere'
  const payer = await createPayer(rpcUrl, { usdcAtomic: FUNDS, approved: !isSponsored })
  // Given here and not at the attack, which must be the payer's one transaction.
  await callRpc(rpcUrl, 'anvil_setBalance', [payer.account.address, toHex(10n ** 18n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [payer.account.address])
  return await signChat(baseUrl, payer, isSponsored ? { permit: {} } : {})
}

async function attackAt(
  stack: WatchedStack,
  moment: Moment,
  attempts: readonly Attempt[],
): Promise<readonly PayerAttackRow[]> {
  const { baseUrl } = stack.sandbox.info
  const pay = () => Promise.all(attempts.map(({ chat }) => payChat(baseUrl, chat)))
  const strike = () => Promise.all(attempts.map((attempt) => sendAttack(stack, attempt)))
  const answers = moment === 'before verify' ? await strike().then(pay) : await payAround(stack, moment, pay, strike)
  return await Promise.all(
    attempts.map(async ({ attack, chat }, index) => {
      const answer = answers[index] as ChatAnswer
      const repeated = await payChat(baseUrl, chat)
      const { upstreamCalls, transfers } = await countFor(stack.sandbox, chat)
      return {
        moment,
        attack,
        answer: told(answer),
        repeated: told(repeated),
        upstreamCalls,
        transfers: transfers.length,
        released: await isReleased(stack, chat, [answer, repeated]),
      }
    }),
  )
}

/** Holds every payment up at the moment, strikes, and lets them go on. */
async function payAround(
  { sandbox }: WatchedStack,
  moment: Exclude<Moment, 'before verify'>,
  pay: () => Promise<readonly ChatAnswer[]>,
  strike: () => Promise<unknown>,
): Promise<readonly ChatAnswer[]> {
  const { rpcUrl } = sandbox.info
  const isWaiting = async (state: 'accepted' | 'generating') =>
    (await sandbox.sql('SELECT 1 FROM jobs WHERE state = $1', [state])).length === ATTACKS.length
  const waitingTransactions = async () => Number((await callRpc<{ pending: Hex }>(rpcUrl, 'txpool_status', [])).pending)
  switch (moment) {
    case 'before the provider call': {
      process.kill(sandbox.pidOf('worker'), 'SIGSTOP')
      const answers = pay()
      await untilReached('every job waits for the worker', () => isWaiting('accepted'))
      await strike()
      process.kill(sandbox.pidOf('worker'), 'SIGCONT')
      return await answers
    }
    case 'before the settlement': {
      process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
      const answers = pay()
      await untilReached('every call is with the provider', () => isWaiting('generating'))
      await strike()
      process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
      return await answers
    }
    case 'in the mempool, with a higher tip': {
      await callRpc(rpcUrl, 'evm_setAutomine', [false])
      const answers = pay()
      await untilReached('every settlement waits', async () => (await waitingTransactions()) === ATTACKS.length)
      const struck = strike()
      await untilReached('every attack waits', async () => (await waitingTransactions()) === 2 * ATTACKS.length)
      await callRpc(rpcUrl, 'evm_mine', [])
      await callRpc(rpcUrl, 'evm_setAutomine', [true])
      await struck
      return await answers
    }
  }
}

/** Sends the payer's own transaction with a tip above everybody's, and waits until it is mined. */
async function sendAttack({ sandbox }: WatchedStack, { attack, chat }: Attempt): Promise<void> {
  const { rpcUrl } = sandbox.info
  const call = await attackCall(attack, chat)
  const tip = toHex(50_000_000_000n)
  const fees = { maxPriorityFeePerGas: tip, maxFeePerGas: toHex(100_000_000_000n), gas: toHex(200_000n) }
  const transaction = { from: chat.payer.account.address, ...call, ...fees }
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [transaction])
  const { status } = await sandbox.chain.client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`the payer’s own transaction was reverted: ${attack}`)
}

async function attackCall(attack: Attack, { payer, nonce }: SignedChat): Promise<{ to: Hex; data: Hex }> {
  const { usdc, permit2 } = DEVNET_ADDRESSES
  switch (attack) {
    case 'funds moved':
      return { to: usdc, data: encodeFunctionData({ abi: ABI, functionName: 'transfer', args: [ELSEWHERE, FUNDS] }) }
    case 'allowance revoked':
      return { to: usdc, data: encodeFunctionData({ abi: ABI, functionName: 'approve', args: [permit2, 0n] }) }
    case 'nonce burnt': {
      const args = [nonce >> 8n, 1n << (nonce & 255n)] as const
      return { to: permit2, data: encodeFunctionData({ abi: ABI, functionName: 'invalidateUnorderedNonces', args }) }
    }
    case 'permit spent elsewhere': {
      const { address } = payer.account
      const deadline = secondsFromNow(600)
      const signature = await payer.account.signTypedData({
        domain: { name: 'USD Coin', version: '2', chainId: DEVNET_CHAIN_ID, verifyingContract: usdc },
        types: PERMIT_TYPES,
        primaryType: 'Permit',
        message: { owner: address, spender: ELSEWHERE, value: 1n, nonce: 0n, deadline },
      })
      const { r, s, yParity } = parseSignature(signature)
      const args = [address, ELSEWHERE, 1n, deadline, yParity + 27, r, s] as const
      return { to: usdc, data: encodeFunctionData({ abi: ABI, functionName: 'permit', args }) }
    }
  }
}

const PERMIT_TYPES = {
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/** Whether an answer holds what the provider wrote; a job without a result has nothing to release. */
async function isReleased(
  { sandbox }: WatchedStack,
  { idempotencyKey }: SignedChat,
  answers: readonly ChatAnswer[],
): Promise<boolean> {
  const [job] = await sandbox.sql<{ result_body: string | null }>(
    'SELECT result_body FROM jobs WHERE idempotency_key = $1',
    [idempotencyKey],
  )
  if (!job?.result_body) return answers.some(({ status }) => status === 200)
  const { choices } = JSON.parse(job.result_body) as { choices: { message: { content: string } }[] }
  const written = JSON.stringify(choices[0]?.message.content).slice(1, -1)
  return answers.some(({ status, body }) => status === 200 || body.includes(written))
}

/** `npm run campaign -- payer-attacks` */
export async function run(): Promise<number> {
  const rows = await runPayerAttacks()
  console.table(rows)
  return rows.some(({ released, transfers }) => released || transfers > 0) ? 1 : 0
}
