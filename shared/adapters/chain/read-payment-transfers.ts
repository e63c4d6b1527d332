import type { PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import { usdcAbi } from './contracts.ts'

/** Every transfer from the payer to the recipient within the blocks, of whatever value, as the log index has them. One RPC call. */
export function readPaymentTransfers(
  client: PublicClient,
  { asset, payer, payTo }: Authorization,
  fromBlock: bigint,
  toBlock: bigint | 'latest',
) {
  return client.getContractEvents({
    address: asset,
    abi: usdcAbi,
    eventName: 'Transfer',
    args: { from: payer, to: payTo },
    strict: true,
    fromBlock,
    toBlock,
  })
}
