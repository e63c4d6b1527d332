import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { RefundedPayment, RefundProof, RefundReader, RefusedRefund } from './refund.ts'

/** By how much the clocks of chain and database may differ; block times are whole seconds, too. */
const CLOCK_DIFFERENCE_MS = 60_000
const TRANSACTION_HASH = /^0x[0-9a-f]{64}$/

/**
 * Proves that a transaction returned a payment: final, successful, not before the payment, with a transfer of exactly
 * the amount to the payer from the account that the payment was for, or another one of the operator: a stranger's
 * transfer of the same amount refunds nothing. Returns every such transfer, since one transaction may refund several
 * items.
 */
export async function proveRefund(
  reader: RefundReader,
  transaction: string,
  payment: RefundedPayment,
): Promise<RefundProof> {
  const hash = transaction.trim().toLowerCase()
  if (!TRANSACTION_HASH.test(hash))
    return refused('malformed', 'Enter the transaction of the refund: 0x and 64 hexadecimal digits.')
  if (payment.network !== reader.network)
    return refused(
      'other_network',
      `The payment is on ${payment.network}, and refunds are proven on ${reader.network}.`,
    )
  const found = await reader.read(hash)
  if (found.outcome === 'unreachable')
    return refused('unreachable', 'The chain cannot be read at present, so the refund cannot be proven. Try again.')
  if (found.outcome === 'unknown')
    return refused(
      'unknown',
      `No block of ${reader.network} contains this transaction. It may be pending, or on another chain.`,
    )
  if (found.isReverted) return refused('reverted', 'This transaction reverted: it transferred nothing.')

  const received = found.transfers.filter(({ to }) => to === payment.payer)
  const inAsset = found.transfers.filter(({ asset }) => asset === reader.asset)
  const toPayer = received.filter(({ asset }) => asset === reader.asset)
  if (toPayer.length === 0 && (received.length > 0 || inAsset.length === 0))
    return refused('wrong_asset', `This transaction transfers no USDC (${reader.asset}) to the payer ${payment.payer}.`)
  if (toPayer.length === 0)
    return refused(
      'wrong_payer',
      `This transaction transfers USDC to ${inAsset[0]?.to}, not to the payer ${payment.payer}.`,
    )
  const fromOthers = toPayer.filter(({ from }) => from !== payment.payer)
  if (fromOthers.length === 0) return refused('from_payer', 'This transfer is from the payer to themselves.')
  const fromOperator = fromOthers.filter(({ from }) => from === payment.payTo || reader.senders.includes(from))
  if (fromOperator.length === 0)
    return refused(
      'from_stranger',
      `This transfer is from ${fromOthers[0]?.from}, which is neither the recipient of the payment (${payment.payTo}) nor one of REFUND_SENDERS. Add it there if it is yours; what others paid is paid_outside.`,
    )
  const exact = fromOperator.filter(({ amount }) => amount === payment.amount)
  if (exact.length === 0)
    return refused(
      'wrong_amount',
      `This transaction transfers ${fromOperator.map(({ amount }) => usdc(amount)).join(' and ')} USDC to the payer; the refund must be exactly ${usdc(payment.amount)} USDC.`,
    )
  const isTooEarly =
    (payment.paidAfter !== null && found.minedAt.getTime() < payment.paidAfter.getTime() - CLOCK_DIFFERENCE_MS) ||
    (payment.blockNumber !== null && found.blockNumber < payment.blockNumber)
  if (isTooEarly) return refused('too_early', 'This transaction is older than the payment, so it does not refund it.')
  if (!found.isFinal)
    return refused(
      'not_final',
      `Block ${found.blockNumber} of this transaction is not final yet. Try again in some minutes.`,
    )
  return { outcome: 'proven', transfers: exact }
}

function usdc(amount: bigint): string {
  return dollarsFromAtomic(atomicAmount(amount))
}

function refused(why: RefusedRefund, sentence: string): RefundProof {
  return { outcome: 'refused', why, sentence }
}
