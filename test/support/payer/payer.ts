import { encodeFunctionData, type Hex, maxUint256, parseAbi, toHex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader } from '../chain/devnet.ts'

/** Signs for a payer: a key, or what signs in the name of a contract wallet. */
export type PayerAccount = Pick<PrivateKeyAccount, 'address' | 'signMessage' | 'signTypedData'>

/** A payer of one test, who can also do with their money what no honest client does. */
export interface Payer extends PayerOfAnyKind {
  readonly account: PrivateKeyAccount
  readonly privateKey: Hex
}

/** A payer with a key or with code. */
export interface PayerOfAnyKind extends Spending {
  /** In lower case. */
  readonly address: Hex
  readonly account: PayerAccount
  readonly rpcUrl: string
}

/** What the owner of USDC does by own transactions. */
interface Spending {
  /** Lets Permit2 spend the payer's USDC. */
  approve(valueAtomic?: bigint): Promise<void>
  /** Transfers USDC away, or to someone. */
  spend(valueAtomic: bigint, to?: Hex): Promise<void>
  balance(): Promise<bigint>
  /** Transfers the whole balance away. */
  spendAll(): Promise<void>
  /** Burns a Permit2 nonce, as its owner may at any time. */
  invalidateNonce(nonce: bigint): Promise<void>
}

export interface PayerOptions {
  /** Default: 1 USDC. */
  readonly usdcAtomic?: bigint
  /** Whether Permit2 may spend all of it, so that a payment needs no gas sponsoring; default false. */
  readonly approved?: boolean
}

/** A call of a contract. */
export interface ContractCall {
  readonly to: Hex
  readonly data: Hex
}

const ABI = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function invalidateUnorderedNonces(uint256 word, uint256 mask)',
])
/** Receives the USDC that payers spend. */
export const ELSEWHERE = '0x000000000000000000000000000000000000dEaD'
const SPEND_ATTEMPTS = 3

/** The payer's own transactions. */
export const payerCalls = {
  approve: (valueAtomic: bigint): ContractCall => ({
    to: DEVNET_ADDRESSES.usdc,
    data: encodeFunctionData({ abi: ABI, functionName: 'approve', args: [DEVNET_ADDRESSES.permit2, valueAtomic] }),
  }),
  spend: (valueAtomic: bigint, to: Hex = ELSEWHERE): ContractCall => ({
    to: DEVNET_ADDRESSES.usdc,
    data: encodeFunctionData({ abi: ABI, functionName: 'transfer', args: [to, valueAtomic] }),
  }),
  invalidateNonce: (nonce: bigint): ContractCall => ({
    to: DEVNET_ADDRESSES.permit2,
    data: encodeFunctionData({
      abi: ABI,
      functionName: 'invalidateUnorderedNonces',
      args: [nonce >> 8n, 1n << (nonce & 255n)],
    }),
  }),
}

/** Creates a payer with a fresh key, USDC, and no gas of their own. */
export async function createPayer(
  rpcUrl: string,
  { usdcAtomic = 1_000_000n, approved = false }: PayerOptions = {},
): Promise<Payer> {
  const payer = payerWithKey(rpcUrl, generatePrivateKey())
  if (usdcAtomic > 0n) await mintInTurn(rpcUrl, payer.address, usdcAtomic)
  if (approved) await payer.approve()
  return payer
}

/** Returns the payer who has this key. */
export function payerWithKey(rpcUrl: string, privateKey: Hex): Payer {
  const account = privateKeyToAccount(privateKey)
  const address = account.address.toLowerCase() as Hex
  return { address, account, privateKey, rpcUrl, ...spendingOf(rpcUrl, address) }
}

/** Returns what an owner of USDC can do by own transactions, which `send` sends; by default the account itself. */
export function spendingOf(
  rpcUrl: string,
  address: Hex,
  send: (call: ContractCall) => Promise<void> = (call) => sendAs({ address, rpcUrl }, call),
): Spending {
  const chain = createChainReader(rpcUrl)
  const spend = (valueAtomic: bigint, to?: Hex) => send(payerCalls.spend(valueAtomic, to))
  return {
    approve: (valueAtomic = maxUint256) => send(payerCalls.approve(valueAtomic)),
    spend,
    balance: () => chain.usdcBalance(address),
    spendAll: async () => {
      // A settlement between the read and the transfer makes the transfer fail; the next attempt spends what is left.
      for (let attempt = 0; attempt < SPEND_ATTEMPTS; attempt++) {
        const left = await chain.usdcBalance(address)
        if (left === 0n) return
        await spend(left).catch(() => undefined)
      }
      throw new Error(`the payer still has USDC after ${SPEND_ATTEMPTS} transfers`)
    },
    invalidateNonce: (nonce) => send(payerCalls.invalidateNonce(nonce)),
  }
}

/** Sends a transaction of an account, whose gas the chain pays, and waits until it is mined. */
export async function sendAs(from: Pick<Payer, 'address' | 'rpcUrl'>, call: ContractCall): Promise<void> {
  const { address, rpcUrl } = from
  await unlockPayer(from)
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from: address, ...call }])
  const { status } = await createChainReader(rpcUrl).client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`the transaction ${hash} of ${address} was reverted`)
}

/** Funds the payer with gas and lets the node send their transactions. */
export async function unlockPayer({ address, rpcUrl }: Pick<Payer, 'address' | 'rpcUrl'>): Promise<void> {
  await callRpc(rpcUrl, 'anvil_setBalance', [address, toHex(10n ** 18n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [address])
}

/** Minting sends from one account, whose nonces anvil mixes up when several transactions are sent concurrently. */
let minting: Promise<unknown> = Promise.resolve()

export function mintInTurn(rpcUrl: string, to: Hex, usdcAtomic: bigint): Promise<void> {
  const minted = minting.then(() => mintUsdc(rpcUrl, to, usdcAtomic))
  minting = minted.catch(() => undefined)
  return minted
}
