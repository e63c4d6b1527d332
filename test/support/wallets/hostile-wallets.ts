import { type Hex, numberToHex, pad } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createDelegatingPayer, type HostileMode, placeDelegate, setHostileMode } from '../chain/delegating-payer.ts'
import { createPayer, type PayerOfAnyKind, type PayerOptions } from '../payer/payer.ts'
import type { SafeVersion } from './published-code.ts'
import type { SafeOwner } from './safe-owners.ts'
import { createSafe, freshKeyOwners } from './safe-wallet.ts'

/** A payer whose signatures are judged by code that may say anything at any time. */
export interface HostileWallet extends PayerOfAnyKind {
  /** The contract that decides, in lower case. */
  readonly judge: Hex
  setMode(mode: HostileMode, parameter?: bigint): Promise<void>
}

type CreateHostile = (
  rpcUrl: string,
  options?: PayerOptions & { readonly version?: SafeVersion },
) => Promise<HostileWallet>

/** Where hostile code sits. */
export const HOSTILE_WALLETS = {
  'own code': async (rpcUrl, options) => {
    const wallet = await createPayer(rpcUrl, options)
    await callRpc(rpcUrl, 'anvil_setCode', [wallet.address, await hostileCode(rpcUrl)])
    return judgedBy(wallet, wallet.address)
  },
  'own code by delegation': async (rpcUrl, options) => {
    const wallet = await createDelegatingPayer(rpcUrl, options)
    return { ...wallet, judge: wallet.delegate }
  },
  'the fallback handler of a Safe': async (rpcUrl, options) => {
    const handler = await placeDelegate(rpcUrl)
    return judgedBy(await createSafe(rpcUrl, { ...options, handler }), handler)
  },
  'the only owner of a Safe': async (rpcUrl, options) => {
    const owner = await placeDelegate(rpcUrl)
    const safe = await createSafe(rpcUrl, { ...options, owners: [contractOwner(owner)] })
    return judgedBy(safe, owner)
  },
  'one of two owners of a Safe': async (rpcUrl, options) => {
    const owner = await placeDelegate(rpcUrl)
    const owners = [...freshKeyOwners(1), contractOwner(owner)]
    return judgedBy(await createSafe(rpcUrl, { ...options, owners }), owner)
  },
  'the singleton of a Safe': async (rpcUrl, options) => {
    const safe = await createSafe(rpcUrl, options)
    const singleton = await placeDelegate(rpcUrl)
    await callRpc(rpcUrl, 'anvil_setStorageAt', [safe.address, numberToHex(0, { size: 32 }), pad(singleton)])
    return judgedBy(safe, singleton)
  },
} satisfies Readonly<Record<string, CreateHostile>>

/** Places code at an account that validates everything, and counts on nothing else. */
async function hostileCode(rpcUrl: string): Promise<Hex> {
  return await callRpc<Hex>(rpcUrl, 'eth_getCode', [await placeDelegate(rpcUrl), 'latest'])
}

/** An owner whose signature is its own business. */
function contractOwner(address: Hex): SafeOwner {
  return { address, isContract: true, sign: () => Promise.resolve('0x') }
}

function judgedBy(wallet: PayerOfAnyKind, judge: Hex): HostileWallet {
  const setMode: HostileWallet['setMode'] = (mode, parameter = 0n) =>
    setHostileMode(wallet.rpcUrl, judge, mode, parameter)
  return { ...wallet, judge, setMode }
}
