import { formatEther, formatGwei, type Hex, isAddressEqual, keccak256, type PublicClient } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { Refusal } from '../command-line.ts'
import type { PlannedTransaction, ReportLine } from './plan.ts'

/** Between the estimate and the block, storage may change what a transaction needs. */
const GAS_MARGIN_PERCENT = 120n
const RECEIPT_POLL_MS = 1000
const RECEIPT_TIMEOUT_MS = 180_000

/**
 * Estimates a transaction and checks that the sender may and can pay for it. Without a key, as in a dry run, the sender is the one
 * that the contract expects.
 */
export async function priceTransaction(
  client: PublicClient,
  { to, data, from, purpose }: PlannedTransaction,
  senderKey: Hex | null,
) {
  const sender = senderKey === null ? from : privateKeyToAccount(senderKey).address
  if (sender !== null && from !== null && !isAddressEqual(sender, from))
    throw new Refusal(`Only ${from} may do this; SENDER_PRIVATE_KEY is the key of ${sender}`)
  const estimated = await client
    .estimateGas({ ...(sender && { account: sender }), to, data })
    .catch((cause: unknown) => {
      throw new Refusal(`The node expects the transaction to fail: ${shortMessageOf(cause)}`, { cause })
    })
  const gas = (estimated * GAS_MARGIN_PERCENT) / 100n
  const { maxFeePerGas, maxPriorityFeePerGas, baseFeePerGas } = await createFeeEstimator(client)()
  const price = baseFeePerGas + maxPriorityFeePerGas
  const balance = senderKey !== null && sender !== null ? await client.getBalance({ address: sender }) : null
  if (balance !== null && balance < gas * maxFeePerGas)
    throw new Refusal(`${sender} has ${formatEther(balance)} ETH; ${formatEther(gas * maxFeePerGas)} ETH is needed`)
  return {
    report: [
      ['sends', `${(data.length - 2) / 2} bytes to ${to}, which ${purpose}`, ...(sender ? [`from ${sender}`] : [])],
      [
        'cost',
        `about ${formatEther(estimated * price)} ETH: ${estimated} gas at ${formatGwei(price)} gwei`,
        `at most ${formatEther(gas * maxFeePerGas)} ETH, and the rollup's fee for the data`,
      ],
    ] satisfies ReportLine[],
    /** Sends it and waits until it is mined. Throws `Refusal` when it reverts or is not mined in three minutes. */
    send: async (key: Hex): Promise<ReportLine> => {
      const account = privateKeyToAccount(key)
      const nonce = await client.getTransactionCount({ address: account.address, blockTag: 'pending' })
      const fees = { maxFeePerGas, maxPriorityFeePerGas }
      const raw = await account.signTransaction({ type: 'eip1559', chainId: CHAIN_ID, nonce, gas, to, data, ...fees })
      await client.sendRawTransaction({ serializedTransaction: raw })
      const hash = keccak256(raw)
      const receipt = await waitForReceipt(client, hash)
      if (receipt.status !== 'success') throw new Refusal(`Transaction ${hash} was reverted`)
      return ['mined', `${hash} in block ${receipt.blockNumber}, ${receipt.gasUsed} gas`]
    },
  }
}

async function waitForReceipt(client: PublicClient, hash: Hex) {
  const giveUpAt = Date.now() + RECEIPT_TIMEOUT_MS
  while (Date.now() < giveUpAt) {
    const receipt = await client.getTransactionReceipt({ hash }).catch(() => null)
    if (receipt !== null) return receipt
    await new Promise((resolve) => setTimeout(resolve, RECEIPT_POLL_MS))
  }
  throw new Refusal(`Transaction ${hash} was sent and is not mined yet. Repeat the command to see what became of it.`)
}

function shortMessageOf(cause: unknown): string {
  const { shortMessage } = cause as { shortMessage?: string }
  return shortMessage ?? (cause instanceof Error ? cause.message : String(cause))
}
