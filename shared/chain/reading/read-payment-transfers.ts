import type { PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import { usdcAbi } from '../network/contracts.ts'

/** Reads every transfer from payer to recipient in the blocks, of any value, from the log index. One RPC call. */
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
