import { type Address, createPublicClient, encodeFunctionData, type Hex, http, parseAbi, parseEther, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/chain/network/base-chain.ts'
import { DEVNET_ADDRESSES } from './devnet.ts'
import { callRpc } from './json-rpc.ts'
import { waitForReceipt } from './wait-for-receipt.ts'

/** 1,000 USDC, in atomic units of six decimals. */
const PAYER_FUNDS_ATOMIC = 1_000_000_000n

const SETTLEMENT_FUNDS_WEI = parseEther('100')

/** A settlement key with less is funded again. */
const LOWEST_SETTLEMENT_FUNDS_WEI = parseEther('10')

const USDC_ABI = parseAbi([
  'function MINTER() view returns (address)',
  'function mintedTo(address account) view returns (uint256)',
  'function mint(address to, uint256 value) returns (bool)',
])

/** A key pair on the sandbox's chain. */
export interface SandboxAccount {
  address: Address
  privateKey: Hex
}

/** The parties of a payment, as plain strings that can be stored as JSON. */
export interface SandboxAccounts {
  /** The buyer, with USDC but no native gas and no allowance for Permit2. */
  payer: SandboxAccount
  /** Sends the settlements, with native gas but no USDC. */
  settlement: SandboxAccount
  /** The recipient of payments (`payTo`), with no funds at first. */
  recipient: SandboxAccount
}

/** Generates random keys, which the caller keeps as long as the chain. */
export function createSandboxAccounts(): SandboxAccounts {
  return { payer: createSandboxAccount(), settlement: createSandboxAccount(), recipient: createSandboxAccount() }
}

export function createSandboxAccount(): SandboxAccount {
  const privateKey = generatePrivateKey()
  return { address: privateKeyToAccount(privateKey).address, privateKey }
}

/**
 * Funds the payer with 1,000 USDC and the settlement key with 100 ETH.
 *
 * Idempotent on a kept chain: a payer is funded only once, even when it has spent everything, and a settlement key only
 * below 10 ETH.
 */
export async function fundSandboxAccounts(
  rpcUrl: string,
  accounts: { payer: { address: Address }; settlement: { address: Address } },
): Promise<void> {
  const { payer, settlement } = accounts
  const client = createPublicClient({ chain: base, transport: http(rpcUrl) })
  const [minted] = await Promise.all([
    client.readContract({
      address: DEVNET_ADDRESSES.usdc,
      abi: USDC_ABI,
      functionName: 'mintedTo',
      args: [payer.address],
    }),
    fundSettlementAccount(rpcUrl, settlement.address),
  ])
  if (minted === 0n) await mintUsdc(rpcUrl, payer.address, PAYER_FUNDS_ATOMIC)
}

/** Sets a settlement account's balance to 100 ETH when it has less than 10. */
export async function fundSettlementAccount(rpcUrl: string, address: Address): Promise<void> {
  const client = createPublicClient({ chain: base, transport: http(rpcUrl) })
  if ((await client.getBalance({ address })) >= LOWEST_SETTLEMENT_FUNDS_WEI) return
  await callRpc(rpcUrl, 'anvil_setBalance', [address, toHex(SETTLEMENT_FUNDS_WEI)])
}

/**
 * Mints USDC in atomic units for an account and waits until the transaction is mined.
 *
 * Works only on a development node, which impersonates the minter: no one has its key.
 */
export async function mintUsdc(rpcUrl: string, to: Address, amountAtomic: bigint): Promise<void> {
  const client = createPublicClient({ chain: base, transport: http(rpcUrl) })
  const minter = await client.readContract({ address: DEVNET_ADDRESSES.usdc, abi: USDC_ABI, functionName: 'MINTER' })
  await callRpc(rpcUrl, 'anvil_setBalance', [minter, toHex(parseEther('1'))])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [minter])
  const data = encodeFunctionData({ abi: USDC_ABI, functionName: 'mint', args: [to, amountAtomic] })
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from: minter, to: DEVNET_ADDRESSES.usdc, data }])
  const { status } = await waitForReceipt(client, hash)
  if (status !== 'success') throw new Error(`Minting USDC for ${to} was reverted`)
}
