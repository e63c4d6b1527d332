import { type Address, encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { waitForReceipt } from '../../../infra/sandbox/chain/wait-for-receipt.ts'
import type { TestDevnet } from './devnet.ts'

const ABI = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
/** More than the depth at which the devnet's blocks are final. */
const FINAL_AFTER = 70

/** Transfers a token of an account that the devnet impersonates; USDC by default. Returns the mined transaction. */
export async function sendToken(
  { rpcUrl, client }: Pick<TestDevnet, 'rpcUrl' | 'client'>,
  transfer: { readonly from: Address; readonly to: Address; readonly amount: bigint; readonly token?: Address },
): Promise<Hex> {
  const { from, to, amount, token = DEVNET_ADDRESSES.usdc } = transfer
  await callRpc(rpcUrl, 'anvil_setBalance', [from, toHex(10n ** 18n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [from])
  const data = encodeFunctionData({ abi: ABI, functionName: 'transfer', args: [to, amount] })
  // With a limit of its own, a transfer that reverts is mined all the same.
  const call = { from, to: token, data, gas: toHex(200_000n) }
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [call])
  await waitForReceipt(client, hash)
  return hash
}

/** Makes every mined block final. */
export async function finalizeBlocks({ rpcUrl }: Pick<TestDevnet, 'rpcUrl'>): Promise<void> {
  await callRpc(rpcUrl, 'anvil_mine', [toHex(FINAL_AFTER)])
}
