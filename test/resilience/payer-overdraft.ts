import { mintUsdc } from '../../infra/sandbox/chain/fund-devnet.ts'
import { type ChatAnswer, payChat, type SignedChat, signChat, upstreamCallsByKey } from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { describeAnswer, startWatchedStack, type WatchedStack } from './rpc-faults.ts'
import { untilReached } from './stack/until-reached.ts'

/** Five cents, for calls of up to half a cent. */
const WALLET_ATOMIC = 50_000n
/** Long enough that the first answer of each call is the final one. */
const HOLD_SECONDS = 240

/** The result of fifty concurrent calls of a wallet that can pay for ten. */
export interface OverdraftRow {
  readonly wallet: 'keeps its money' | 'is emptied while its calls are at the provider'
  readonly limitUsdc: string
  readonly calls: number
  readonly providerCalls: number
  readonly charged: number
  /** Results that were produced, not paid for, and withheld. */
  readonly withheld: number
  /** Sum of the signed maxima of all started work, in atomic USDC. */
  readonly begunAtomic: bigint
  readonly walletAtomic: bigint
  readonly answers: Readonly<Record<string, number>>
  /**
   * The answers to another call before the debt is paid, to the payment of the debt, and to another call afterwards.
   */
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
    // Accepted calls stay with the provider until all others have been rejected.
    process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
    let sentAway = 0
    const paying = Promise.all(
      chats.map(async (chat) => {
        const answer = await payChat(baseUrl, chat)
        sentAway += 1
        return answer
      }),
    )
    await untilReached('every call is with the provider or rejected', async () => {
      const begun = await sandbox.sql("SELECT 1 FROM upstream_attempts WHERE state = 'open'")
      return begun.length + sentAway === calls
    })
    if (wallet !== 'keeps its money') await payer.spendAll()
    process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
    const answers = await paying
    const begun = await upstreamCallsByKey(sandbox.info)
    const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
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
        [...Map.groupBy(answers, describeAnswer)].map(([answer, { length }]) => [answer, length] as const),
      ),
      debtor,
      violations,
    }
  } finally {
    await stack.stop()
  }
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
  if ([...begun.values()].some((count) => count > 1)) violations.push('a provider was called twice for one job')
  if (begunAtomic > WALLET_ATOMIC + BigInt(paid) * (chats[0]?.maximum ?? 0n))
    violations.push(`work for ${begunAtomic} was started for a wallet of ${WALLET_ATOMIC}`)
  return violations
}

/**
 * Checks that a debtor gets nothing new before the withheld results are paid, and that these cost no second provider
 * call.
 */
async function payDebts(
  { sandbox }: WatchedStack,
  payer: Payer,
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
  if (refused.code !== 'unpaid_debt') violations.push(`a debtor was answered with ${describeAnswer(refused)}`)
  if (settled.some(({ status }) => status !== 200)) violations.push('a debt could not be paid')
  if (callsForDebts !== 0) violations.push(`paying debts made ${callsForDebts} provider calls`)
  if (served.status !== 200) violations.push(`a payer without debts was answered with ${describeAnswer(served)}`)
  return `${describeAnswer(refused)} → ${settled.length} × ${describeAnswer(settled[0] ?? served)} → ${describeAnswer(served)}`
}

/** Runs `npm run campaign -- payer-overdraft`. */
export async function run(): Promise<number> {
  const rows = [
    await runOverdraft('keeps its money'),
    await runOverdraft('is emptied while its calls are at the provider'),
    await runOverdraft('is emptied while its calls are at the provider', { limitUsdc: '0.02' }),
  ]
  for (const row of rows) console.log(row)
  return rows.every(({ violations }) => violations.length === 0) ? 0 : 1
}
