import { setTimeout as delay } from 'node:timers/promises'
import { zeroAddress } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { delegateTo } from '../../support/chain/delegating-payer.ts'
import {
  type Attack,
  type AttackContext,
  from,
  label,
  LONG_MS,
  paidCall,
  sendAttackCall,
  signAttackCall,
  TAKE_LONG,
} from './attack-calls.ts'

const CODE_MODES = ['accepts', 'needs_gas', 'reverts_with_bytes', 'burns_gas'] as const
const WALLET_MODES = ['accepts', 'accepts_until_block', 'reverts_with_bytes', 'burns_gas'] as const
/** The simulation still passes, and the block that mines the settlement is behind it. */
const BLOCKS_UNTIL_REVERT = 6n

/** What attackers do with code that their accounts run or ask. */
export const WALLET_ATTACKS: Readonly<Record<string, Attack>> = {
  'wallets with code': {
    pauseMs: 200,
    attempt: async (context, turn) => {
      const wallet = context.wallets.delegating[turn % 2]
      if (!wallet) return 'no wallet'
      await wallet.setMode(CODE_MODES[turn % CODE_MODES.length] ?? 'accepts')
      const call = await paidCall(context, turn, wallet, {})
      return call ? label(await sendAttackCall(context, from(context, turn), call)) : 'no challenge'
    },
  },
  'code set while the vendor works that burns the gas of the settlement': {
    pauseMs: 500,
    attempt: async (context, turn) => {
      const wallet = context.wallets.delegating[2 + (turn % 2)]
      if (!wallet) return 'no wallet'
      await delegateTo(wallet, wallet.delegate)
      await wallet.setMode('accepts_until_block', await lastAcceptingBlock(context))
      await delegateTo(wallet, zeroAddress)
      const call = await paidCall(context, turn, wallet, { text: TAKE_LONG })
      if (!call) return 'no challenge'
      const answered = sendAttackCall(context, from(context, turn), call)
      await delay(LONG_MS / 2)
      await delegateTo(wallet, wallet.delegate)
      return label(await answered)
    },
  },
  'genuine wallets that ask hostile contracts': {
    pauseMs: 200,
    attempt: async (context, turn) => {
      const wallet = context.wallets.hostile[turn % context.wallets.hostile.length]
      if (!wallet) return 'no wallet'
      const mode = WALLET_MODES[turn % WALLET_MODES.length] ?? 'accepts'
      await wallet.setMode(mode, mode === 'accepts_until_block' ? await lastAcceptingBlock(context) : 0n)
      const call = await paidCall(context, turn, wallet, {})
      return call ? label(await sendAttackCall(context, from(context, turn), call)) : 'no challenge'
    },
  },
  'owners of a genuine wallet replaced while the vendor works': {
    pauseMs: 500,
    attempt: async (context, turn) => {
      const [wallet] = context.wallets.genuine
      if (!wallet) return 'no wallet'
      const call = await paidCall(context, turn, wallet, { text: TAKE_LONG })
      if (!call) return 'no challenge'
      const answered = sendAttackCall(context, from(context, turn), call)
      await delay(LONG_MS / 2)
      await wallet.replaceFirstOwner()
      return label(await answered)
    },
  },
  'made-up signatures in the name of a wallet': {
    pauseMs: 20,
    concurrent: 2,
    attempt: async (context, turn) => {
      const [forger, wallet] = context.wallets.genuine
      if (!wallet || !forger) return 'no wallet'
      const forged = { ...wallet, account: { ...forger.account, address: wallet.address } }
      const call = await signAttackCall(context, from(context, turn), forged)
      return call ? label(await sendAttackCall(context, from(context, turn), call)) : 'no challenge'
    },
  },
}

async function lastAcceptingBlock({ rpcUrl }: AttackContext): Promise<bigint> {
  return BigInt(await callRpc<string>(rpcUrl, 'eth_blockNumber', [])) + BLOCKS_UNTIL_REVERT
}
