import { decodePaymentResponseHeader } from '@x402/core/http'
import { formatUsdc } from '../budget/usdc.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import type { PaidAnswer, PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/** Records a successful answer and what it cost. */
export function conclude(
  { journal }: Pick<PaymentContext, 'journal'>,
  { key }: Pick<PaidCall, 'key'>,
  answer: HttpAnswer,
  payment: SignedPayment | null,
): PaidAnswer {
  const { charge, transaction } = readSettlement(answer.headers.get('payment-response'), payment)
  const receiptId = answer.headers.get('x-receipt-id')
  const receiptToken = answer.headers.get('x-receipt-token')
  const earlier = journal.attempts.get(key)?.receipts ?? []
  const replayed = receiptId !== null && earlier.some((receipt) => receipt.receiptId === receiptId)
  const isWithinMaximum = charge <= (payment?.maximum ?? 0n)
  const recorded = record(() => {
    journal.append({ phase: 'answered', key, charge: charge.toString(), transaction, receiptId, receiptToken })
    if (!isWithinMaximum)
      journal.append({
        phase: 'verified',
        key,
        receiptId: receiptId ?? '',
        outcome: 'failed',
        problems: [`the charge of ${formatUsdc(charge)} USDC is above the authorized maximum`],
      })
    // Not awaited: until it is durable, the same call would be answered again without a charge.
    journal.flush().catch(() => undefined)
  })
  return {
    answer,
    payment: {
      key,
      maximum: payment === null ? null : formatUsdc(payment.maximum),
      charged: formatUsdc(charge),
      transaction,
      receiptId,
      receiptToken,
      replayed,
      verified: isWithinMaximum ? 'not_checked' : 'failed',
      recorded,
    },
  }
}

/** Returns the charge that the service states; without a readable statement the whole maximum counts as charged. */
function readSettlement(header: string | null, payment: SignedPayment | null) {
  try {
    const { amount, transaction } = decodePaymentResponseHeader(header ?? '')
    if (amount !== undefined && /^\d{1,30}$/.test(amount)) return { charge: BigInt(amount), transaction }
  } catch {
    // Treated like a missing header.
  }
  return { charge: payment?.maximum ?? 0n, transaction: null }
}

/** A result that is paid for is returned even if the disk is full. */
function record(write: () => void): boolean {
  try {
    write()
    return true
  } catch {
    return false
  }
}
