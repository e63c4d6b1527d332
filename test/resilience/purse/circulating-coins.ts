import { setTimeout as delay } from 'node:timers/promises'
import { maxUint256 } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { sendAttackCall, signAttackCall } from './attack-calls.ts'
import { clientAddress } from './client-address.ts'

/** Covers a call of the highest price. */
export const COIN_ATOMIC = 770_000n
/** Coins that thieves circulate; their wallets call from four networks. */
export const COINS = 12
const ADDRESSES = 1000
const TAKE_LONG = 'take your time'
/** Longer than it takes to move the money twice. */
const LONG_MS = 8000
/** A refusal comes sooner. */
const REFUSAL_MS = 2000
const MAXIMAL = { model: 'textmodel-2.5-pro', max_tokens: 65_536 }
/** The rule under which the vendor takes long with the thieves' calls. */
export const SLOW_RULE = { fault: 'none', times: 'always', containing: TAKE_LONG, delayMs: LONG_MS } as const

/** Uses a coin in one wallet after the other. */
export async function circulate(
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
export async function rob(stack: CampaignStack, wallet: Payer, turn: number) {
  const target = { baseUrl: stack.info.baseUrl, rpcUrl: stack.info.rpcUrl }
  const client = clientAddress(turn % ADDRESSES)
  const change = { text: `${TAKE_LONG} and write 45000 words`, fields: MAXIMAL }
  const call = await signAttackCall(target, client, wallet, change)
  if (!call) return { outcome: 'no challenge', next: wallet }
  const [mule, next] = await createAll(2, () => newWallet(stack, 0n))
  if (!mule || !next) throw new Error('no wallets')
  const answered = sendAttackCall(target, client, call)
  const refused = await Promise.race([answered, delay(REFUSAL_MS, null)])
  // A settlement was faster than the thief, who needs another coin.
  if (refused?.code === 'insufficient_funds')
    return { outcome: label(refused), next: await newWallet(stack, COIN_ATOMIC) }
  await wallet.spend(await wallet.balance(), mule.address)
  await mule.spend(await mule.balance(), next.address)
  return { outcome: label(await answered), next }
}

/** Has a permit stored, and moves the money to the next owner. */
export async function beg(stack: CampaignStack, owner: Payer, turn: number) {
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

export const newWallet = (stack: CampaignStack, usdcAtomic: bigint) =>
  createPayer(stack.info.rpcUrl, { usdcAtomic, approved: true })

export function createAll(length: number, create: () => Promise<Payer>): Promise<readonly Payer[]> {
  return Promise.all(Array.from({ length }, create))
}

function label(answer: { readonly status: number; readonly code?: string | null } | null): string {
  return answer ? `${answer.status} ${answer.code ?? ''}`.trim() : 'no answer'
}
