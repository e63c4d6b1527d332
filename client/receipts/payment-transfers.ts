import type { Address, TransactionReceipt } from 'viem'
import type { Receipt } from '../wire/schemas.ts'

/** What a settled transaction moved from a payer to the recipient, in atomic USDC. */
export interface PaymentTransfers {
  /** The amounts of each of the payer's payments in it, in the order of the chain. */
  readonly payments: readonly (readonly bigint[])[]
  /** How many payments the transaction settles together; `null` when it settles one by itself. */
  readonly batchSize: number | null
}

/**
 * Finds the transfers of each of the payer's payments. A settlement contract reports every payment of a batch by an event
 * after its transfer, so that two payments of one payer, even of one amount, are told apart.
 */
export async function findPaymentTransfers(
  { asset, payer, pay_to }: Pick<Receipt, 'asset' | 'payer' | 'pay_to'>,
  { to, logs }: Pick<TransactionReceipt, 'to' | 'logs'>,
): Promise<PaymentTransfers> {
  const { erc20Abi, isAddressEqual, parseAbi, parseEventLogs } = await import('viem')
  const isSame = (a: string, b: string) => isAddressEqual(a as Address, b as Address)
  const transfers = parseEventLogs({ abi: erc20Abi, eventName: 'Transfer', logs }).filter(
    ({ address, args }) => isSame(address, asset) && isSame(args.from, payer) && isSame(args.to, pay_to),
  )
  const reports = parseEventLogs({ abi: parseAbi(BATCH_EVENTS), logs })
    .filter(({ address }) => to !== null && isSame(address, to))
    .sort((a, b) => a.logIndex - b.logIndex)
  if (reports.length === 0) return { payments: [transfers.map(({ args }) => args.value)], batchSize: null }
  const payments: bigint[][] = []
  let after = -1
  for (const { eventName, args, logIndex } of reports) {
    const amounts = transfers
      .filter((transfer) => transfer.logIndex > after && transfer.logIndex < logIndex)
      .map((transfer) => transfer.args.value)
    if (eventName === 'PaymentSettled' && isSame(args.payer, payer) && amounts.length > 0) payments.push(amounts)
    after = logIndex
  }
  return { payments, batchSize: reports.length }
}

/** The events of the service's settlement contract. */
const BATCH_EVENTS = [
  'event PaymentSettled(address indexed payer, uint256 nonce, uint256 gasUsed)',
  'event PaymentFailed(address indexed payer, uint256 nonce, uint256 gasUsed, bytes4 reason)',
] as const
