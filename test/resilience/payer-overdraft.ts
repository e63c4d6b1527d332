import { encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import { mintUsdc } from '../../infra/sandbox/fund-devnet.ts'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import { type ChatAnswer, payChat, type SignedChat, signChat, upstreamCallsByKey } from '../support/payer/chat-call.ts'
import { createPayer, type TestPayer } from '../support/payer/custom-payment.ts'
import { startWatchedStack, told, type WatchedStack } from './rpc-faults.ts'
import { untilReached } from './until-reached.ts'

const ABI = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
/** Five cents, for calls of up to half a cent. */
const WALLET_ATOMIC = 50_000n
/** The answer of a call that is with the provider is its last word, however long it takes. */
const HOLD_SECONDS = 240

/** What fifty parallel calls of a wallet that can pay for ten came to. */
export interface OverdraftRow {
  readonly wallet: 'keeps its money' | 'is emptied while its calls are at the provider'
  readonly limitUsdc: string
  readonly calls: number
  readonly providerCalls: number
  readonly charged: number
  /** Results that were made, not paid for, and given to nobody. */
  readonly withheld: number
  /** Σ of the signed maxima of everything that was begun, in atomic USDC. */
  readonly begunAtomic: bigint
  readonly walletAtomic: bigint
  readonly answers: Readonly<Record<string, number>>
  /** What another call is told before the debt is paid, what paying it gives, and what another call is told then. */
  readonly debtor: string
  readonly violations: readonly string[]
}

export async function runOverdraft(
  wallet: OverdraftRow['wallet'],
  { calls = 50, limitUsdc = '20' }: { calls?: number; limitUsdc?: string } = {},
): Promise<OverdraftRow> {
  const stack = await startWatchedStack({
    holdSeconds: HOLD_SECONDS,
    apiEnvironment: { MAXIMUM_OPEN_EXPOSURE_USDC: limitUsdc },
  })
  try {
    const { sandbox } = stack
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, { usdcAtomic: WALLET_ATOMIC, approved: true })
    const chats: SignedChat[] = []
    for (let call = 0; call < calls; call += 1) chats.push(await signChat(baseUrl, payer, { isLong: true }))
    // Whatever is let through stays with the provider until everybody else was sent away.
    process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
    let sentAway = 0
    const paying = Promise.all(
      chats.map(async (chat) => {
        const answer = await payChat(baseUrl, chat)
        sentAway += 1
        return answer
      }),
    )
    await untilReached('every call is with the provider or sent away', async () => {
      const begun = await sandbox.sql("SELECT 1 FROM upstream_attempts WHERE state = 'open'")
      return begun.length + sentAway === calls
    })
    if (wallet !== 'keeps its money') await takeAll(stack, payer)
    process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
    const answers = await paying
    const begun = await upstreamCallsByKey(sandbox.info)
    const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`)
    const debtors = chats.filter((_, call) => answers[call]?.code === 'settlement_failed')
    const violations = judge(chats, answers, begun, transfers.length)
    const debtor = debtors.length === 0 ? 'owes nothing' : await payDebts(stack, payer, debtors, violations)
    return {
      wallet,
      limitUsdc,
      calls,
      providerCalls: begun.size,
      charged: transfers.length,
      withheld: debtors.length,
      begunAtomic: chats.reduce((sum, chat) => sum + (begun.has(chat.idempotencyKey) ? chat.maximum : 0n), 0n),
      walletAtomic: WALLET_ATOMIC,
      answers: Object.fromEntries(
        [...Map.groupBy(answers, told)].map(([answer, { length }]) => [answer, length] as const),
      ),
      debtor,
      violations,
    }
  } finally {
    await stack.stop()
  }
}

async function takeAll({ sandbox }: WatchedStack, payer: TestPayer): Promise<void> {
  const { rpcUrl, usdc } = sandbox.info
  const from = payer.account.address
  await callRpc(rpcUrl, 'anvil_setBalance', [from, toHex(10n ** 18n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [from])
  const args = ['0x000000000000000000000000000000000000dEaD', await sandbox.chain.usdcBalance(from)] as const
  const data = encodeFunctionData({ abi: ABI, functionName: 'transfer', args })
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from, to: usdc, data }])
  await sandbox.chain.client.waitForTransactionReceipt({ hash })
}

function judge(
  chats: readonly SignedChat[],
  answers: readonly ChatAnswer[],
  begun: ReadonlyMap<string, number>,
  transfers: number,
): string[] {
  const violations: string[] = []
  const paid = answers.filter(({ status }) => status === 200).length
  if (paid !== transfers) violations.push(`${paid} results for ${transfers} transfers`)
  const begunAtomic = chats.reduce((sum, chat) => sum + (begun.has(chat.idempotencyKey) ? chat.maximum : 0n), 0n)
  if ([...begun.values()].some((count) => count > 1)) violations.push('a provider was asked twice')
  if (begunAtomic > WALLET_ATOMIC + BigInt(paid) * (chats[0]?.maximum ?? 0n))
    violations.push(`work for ${begunAtomic} was begun for a wallet of ${WALLET_ATOMIC}`)
  return violations
}

/** A debtor gets nothing new until the withheld results are paid for, and those cost no second provider call. */
async function payDebts(
  { sandbox }: WatchedStack,
  payer: TestPayer,
  debts: readonly SignedChat[],
  violations: string[],
): Promise<string> {
  const { baseUrl, rpcUrl } = sandbox.info
  const before = (await upstreamCallsByKey(sandbox.info)).size
  await mintUsdc(rpcUrl, payer.account.address, 10n * WALLET_ATOMIC)
  const refused = await payChat(baseUrl, await signChat(baseUrl, payer))
  const settled: ChatAnswer[] = []
  for (const debt of debts) settled.push(await payChat(baseUrl, await signChat(baseUrl, payer, debt)))
  const callsForDebts = (await upstreamCallsByKey(sandbox.info)).size - before
  const served = await payChat(baseUrl, await signChat(baseUrl, payer))
  if (refused.code !== 'unpaid_debt') violations.push(`a debtor was told ${told(refused)}`)
  if (settled.some(({ status }) => status !== 200)) violations.push('a debt could not be paid')
  if (callsForDebts !== 0) violations.push(`paying debts made ${callsForDebts} provider calls`)
  if (served.status !== 200) violations.push(`who had paid was told ${told(served)}`)
  return `${told(refused)} → ${settled.length} × ${told(settled[0] ?? served)} → ${told(served)}`
}

/** `npm run campaign -- payer-overdraft` */
export async function run(): Promise<number> {
  const rows = [
    await runOverdraft('keeps its money'),
    await runOverdraft('is emptied while its calls are at the provider'),
    await runOverdraft('is emptied while its calls are at the provider', { limitUsdc: '0.02' }),
  ]
  for (const row of rows) console.log(row)
  return rows.every(({ violations }) => violations.length === 0) ? 0 : 1
}
