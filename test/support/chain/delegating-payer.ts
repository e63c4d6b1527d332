import { fileURLToPath } from 'node:url'
import { createWalletClient, encodeFunctionData, type Hex, http, numberToHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/chain/network/base-chain.ts'
import { compileSources } from '../../../infra/sandbox/chain/contracts/compile.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createPayer, type Payer, type PayerOptions, sendAs, unlockPayer } from '../payer/payer.ts'
import { createChainReader } from './devnet.ts'

const SOURCES = new URL('contracts/', import.meta.url)
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/farebox-contracts', import.meta.url))

/** How a payer's code validates signatures; `Delegate.sol` says what each means. */
const MODES = { accepts: 0n, needs_gas: 1n, reverts_with_bytes: 2n, burns_gas: 3n, accepts_until_block: 4n } as const

export type HostileMode = keyof typeof MODES

/** A payer whose account delegates to a contract (EIP-7702), by a type-4 transaction as a real one would send. */
export interface DelegatingPayer extends Payer {
  /** In lower case. */
  readonly delegate: Hex
  /** Changes how the account's code validates signatures. */
  setMode(mode: HostileMode, parameter?: bigint): Promise<void>
}

/** Places a new copy of the contract that payers delegate to. Returns its address in lower case. */
export async function placeDelegate(rpcUrl: string): Promise<Hex> {
  const { runtimeBytecode } = await compileDelegate()
  const delegate = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
  await callRpc(rpcUrl, 'anvil_setCode', [delegate, runtimeBytecode])
  return delegate
}

/** Creates a payer with USDC and a Permit2 allowance whose account delegates to a new copy of the contract. */
export async function createDelegatingPayer(rpcUrl: string, options: PayerOptions = {}): Promise<DelegatingPayer> {
  const payer = await createPayer(rpcUrl, { approved: true, ...options })
  const delegate = await placeDelegate(rpcUrl)
  await delegateTo(payer, delegate)
  const { abi } = await compileDelegate()
  return {
    ...payer,
    delegate,
    setMode: async (mode, parameter = 0n) => {
      const data = encodeFunctionData({ abi, functionName: 'setMode', args: [MODES[mode], parameter] })
      await sendAs(payer, { to: payer.address, data })
    },
  }
}

/** Changes how a contract with this code validates signatures, without a transaction that a reorganization could remove. */
export async function setHostileMode(
  rpcUrl: string,
  contract: Hex,
  mode: HostileMode,
  parameter: bigint,
): Promise<void> {
  for (const [slot, value] of [MODES[mode], parameter].entries()) {
    const words = [numberToHex(slot, { size: 32 }), numberToHex(value, { size: 32 })]
    await callRpc(rpcUrl, 'anvil_setStorageAt', [contract, ...words])
  }
}

/** Sends the transaction with which a payer's account delegates to a contract. */
export async function delegateTo(payer: Payer, delegate: Hex): Promise<void> {
  await unlockPayer(payer)
  const wallet = createWalletClient({ account: payer.account, chain: base, transport: http(payer.rpcUrl) })
  const authorization = await wallet.signAuthorization({ contractAddress: delegate, executor: 'self' })
  const hash = await wallet.sendTransaction({
    authorizationList: [authorization],
    to: payer.address,
    gas: 200_000n,
  } as never)
  const { client } = createChainReader(payer.rpcUrl)
  await client.waitForTransactionReceipt({ hash })
}

async function compileDelegate() {
  return (await compileSources(SOURCES, { 'Delegate.sol': 'Delegate' }, CACHE))['Delegate.sol']
}
