import { isAddressEqual, type Log, type PublicClient, parseEventLogs } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { usdcAbi } from '../network/contracts.ts'
import type { LatestBlock } from '../reading/latest-block.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'
import { createConfirmTransaction } from './confirm-transaction.ts'

export type ConfirmTransfer = (
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
) => Promise<Confirmation>

/** Creates the check that a transaction paid a charge: it contains the USDC transfer of it from payer to recipient. */
export function createConfirmTransfer(
  client: PublicClient,
  confirmations?: number,
  nativeTokenUsd?: number,
  latest?: LatestBlock,
): ConfirmTransfer {
  const confirm = createConfirmTransaction(client, confirmations, nativeTokenUsd, latest)
  return async (hash, authorization, chargeAmount) => {
    const outcome = await confirm(hash, {
      isIn: (logs) => hasTransfer(logs, authorization, chargeAmount),
      isIndexed: async ({ transactionHash, blockNumber }) => {
        const transfers = await readPaymentTransfers(client, authorization, blockNumber, blockNumber)
        const matching = transfers.filter((log) => log.transactionHash === transactionHash)
        return hasTransfer(matching, authorization, chargeAmount)
      },
    })
    if (outcome.outcome === 'pending' || outcome.outcome === 'unreachable') return outcome
    if (outcome.outcome === 'event_missing') return { outcome: 'transfer_missing', blockNumber: outcome.blockNumber }
    const { costWei: _, ...confirmation } = outcome
    return confirmation
  }
}

function hasTransfer(
  logs: readonly Log[],
  { asset, payer, payTo }: Authorization,
  chargeAmount: AtomicAmount,
): boolean {
  return parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs: [...logs] }).some(
    ({ address, args }) =>
      isAddressEqual(address, asset) &&
      isAddressEqual(args.from, payer) &&
      isAddressEqual(args.to, payTo) &&
      args.value === chargeAmount,
  )
}
