import * as z from 'zod'
import type { Payment } from '../../farebox.ts'

/** What was paid, as every paid tool states it. It is the same on every repetition of a call. */
export const paymentSchema = z.object({
  price_usdc: z.string().nullable().describe('The maximum that was authorized, in USDC.'),
  charge_usdc: z.string().describe('What was charged, once, in USDC.'),
  transaction: z.string().nullable().describe('The transaction on Base that charged it.'),
  receipt_id: z.string().nullable().describe('The receipt, which `farebox verify` checks.'),
})

export type PaymentForm = z.infer<typeof paymentSchema>

/** Returns what is the same on every repetition. The token that opens the receipt stays in the journal. */
export function paymentForm({ maximum, charged, transaction, receiptId }: Payment): PaymentForm {
  return { price_usdc: maximum, charge_usdc: charged, transaction, receipt_id: receiptId }
}

/** Returns what differs between the first answer of a call and its repetitions. */
export function paymentMeta({ replayed, verified, problems, recorded }: Payment): Readonly<Record<string, unknown>> {
  return {
    'farebox/replayed': replayed,
    'farebox/receipt': { verified, ...(problems.length > 0 && { problems }) },
    ...(!recorded && { 'farebox/unrecorded': true }),
  }
}

/** Returns one line about a payment: the same on every repetition. */
export function paymentLine({ maximum, charged, transaction, receiptId }: Payment): string {
  const parts = [
    `charged ${charged} USDC${maximum === null ? '' : `, at most ${maximum}`}`,
    ...(transaction === null ? [] : [`transaction ${transaction}`]),
    ...(receiptId === null ? [] : [`receipt ${receiptId}`]),
  ]
  return parts.join(' · ')
}
