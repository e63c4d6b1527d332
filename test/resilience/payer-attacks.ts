import { encodeFunctionData, type Hex, parseAbi, parseSignature, toHex } from 'viem'
import { DEVNET_ADDRESSES } from '../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { type ChatAnswer, payChat, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { type ContractCall, createPayer, ELSEWHERE, payerCalls, unlockPayer } from '../support/payer/payer.ts'
import { secondsFromNow } from '../support/payer/sign-authorization.ts'
import { signPermit } from '../support/payer/sign-permit.ts'
import { countFor, describeAnswer, startWatchedStack, type WatchedStack } from './rpc-faults.ts'
import { untilReached } from './stack/until-reached.ts'

const PERMIT_ABI = parseAbi([
  'function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)',
])
const FUNDS = 1_000_000n
/** Long enough that the first answer of each call is the final one. */
const HOLD_SECONDS = 240

const ATTACKS = ['funds moved', 'allowance revoked', 'nonce burned', 'permit spent elsewhere'] as const
export type Attack = (typeof ATTACKS)[number]
const MOMENTS = [
  'before verify',
  'before the provider call',
  'before the settlement',
  'in the mempool, with a higher tip',
] as const
type Moment = (typeof MOMENTS)[number]

/** The result of an attack at one moment. */
export interface PayerAttackRow {
  readonly moment: Moment
  readonly attack: Attack
  readonly answer: string
  readonly repeated: string
  readonly upstreamCalls: number
  readonly transfers: number
  /** Whether any answer contained the sealed result. */
  readonly released: boolean
}

/** Runs every attack at every moment, each with a fresh payer; those of one moment concurrently. */
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
  // Not during the attack, which must be the payer's only transaction.
  await unlockPayer(payer)
  return await signChat(baseUrl, payer, isSponsored ? { permit: {} } : {})
}

async function attackAt(
  stack: WatchedStack,
  moment: Moment,
  attempts: readonly Attempt[],
): Promise<readonly PayerAttackRow[]> {
  const { baseUrl } = stack.sandbox.info
  const pay = () => Promise.all(attempts.map(({ chat }) => payChat(baseUrl, chat)))
  const attackAll = () => Promise.all(attempts.map((attempt) => sendAttack(stack, attempt)))
  const answers =
    moment === 'before verify' ? await attackAll().then(pay) : await payAround(stack, moment, pay, attackAll)
  return await Promise.all(
    attempts.map(async ({ attack, chat }, index) => {
      const answer = answers[index] as ChatAnswer
      const repeated = await payChat(baseUrl, chat)
      const { upstreamCalls, transfers } = await countFor(stack.sandbox, chat)
      return {
        moment,
        attack,
        answer: describeAnswer(answer),
        repeated: describeAnswer(repeated),
        upstreamCalls,
        transfers: transfers.length,
        released: await isReleased(stack, chat, [answer, repeated]),
      }
    }),
  )
}

/** Pauses every payment at the moment, attacks, and resumes them. */
async function payAround(
  { sandbox }: WatchedStack,
  moment: Exclude<Moment, 'before verify'>,
  pay: () => Promise<readonly ChatAnswer[]>,
  attackAll: () => Promise<unknown>,
): Promise<readonly ChatAnswer[]> {
  const { rpcUrl } = sandbox.info
  const isWaiting = async (state: 'accepted' | 'generating' | 'settling') =>
    (await sandbox.sql('SELECT 1 FROM jobs WHERE state = $1', [state])).length === ATTACKS.length
  const waitingTransactions = async () => Number((await callRpc<{ pending: Hex }>(rpcUrl, 'txpool_status', [])).pending)
  switch (moment) {
    case 'before the provider call': {
      process.kill(sandbox.pidOf('worker'), 'SIGSTOP')
      const answers = pay()
      await untilReached('every job is waiting for the worker', () => isWaiting('accepted'))
      await attackAll()
      process.kill(sandbox.pidOf('worker'), 'SIGCONT')
      return await answers
    }
    case 'before the settlement': {
      process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
      const answers = pay()
      await untilReached('the provider has received every call', () => isWaiting('generating'))
      await attackAll()
      process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
      return await answers
    }
    case 'in the mempool, with a higher tip': {
      await callRpc(rpcUrl, 'evm_setAutomine', [false])
      const answers = pay()
      // Several of them may share a transaction.
      const unmined = async () =>
        (await sandbox.sql("SELECT DISTINCT facilitator, account_nonce FROM settlements WHERE state = 'signed'")).length
      await untilReached(
        'every settlement is in the mempool',
        async () => (await isWaiting('settling')) && (await waitingTransactions()) === (await unmined()),
      )
      const settlements = await waitingTransactions()
      const attacked = attackAll()
      await untilReached(
        'every attack is in the mempool',
        async () => (await waitingTransactions()) === settlements + ATTACKS.length,
      )
      await callRpc(rpcUrl, 'evm_mine', [])
      await callRpc(rpcUrl, 'evm_setAutomine', [true])
      await attacked
      return await answers
    }
  }
}

/** Sends the payer's transaction with the highest tip and waits until it is mined. */
async function sendAttack({ sandbox }: WatchedStack, { attack, chat }: Attempt): Promise<void> {
  const { rpcUrl } = sandbox.info
  const call = await attackCall(attack, chat)
  const tip = toHex(50_000_000_000n)
  const fees = { maxPriorityFeePerGas: tip, maxFeePerGas: toHex(100_000_000_000n), gas: toHex(200_000n) }
  const transaction = { from: chat.payer.account.address, ...call, ...fees }
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [transaction])
  const { status } = await sandbox.chain.client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`the payer’s transaction was reverted: ${attack}`)
}

async function attackCall(attack: Attack, { payer, nonce }: SignedChat): Promise<ContractCall> {
  switch (attack) {
    case 'funds moved':
      return payerCalls.spend(FUNDS)
    case 'allowance revoked':
      return payerCalls.approve(0n)
    case 'nonce burned':
      return payerCalls.invalidateNonce(nonce)
    case 'permit spent elsewhere': {
      const permit = {
        owner: payer.address,
        spender: ELSEWHERE,
        amount: 1n,
        nonce: 0n,
        deadline: secondsFromNow(600),
      } as const
      const { r, s, yParity } = parseSignature(await signPermit(payer.account, permit))
      const args = [permit.owner, permit.spender, permit.amount, permit.deadline, yParity + 27, r, s] as const
      return {
        to: DEVNET_ADDRESSES.usdc,
        data: encodeFunctionData({ abi: PERMIT_ABI, functionName: 'permit', args }),
      }
    }
  }
}

/** Returns whether an answer contains the provider's text; a job without a result has nothing to release. */
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

/** Runs `npm run campaign -- payer-attacks`. */
export async function run(): Promise<number> {
  const rows = await runPayerAttacks()
  console.table(rows)
  return rows.some(({ released, transfers }) => released || transfers > 0) ? 1 : 0
}
