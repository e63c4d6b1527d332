import type { Farebox } from '../farebox.ts'
import type { Receipt } from '../wire/schemas.ts'
import type { ReceiptVerification, VerifyOptions } from './receipt-check.ts'

/** Checks a receipt. The wallet's account has the tokens that the journal has not, which costs a signature. */
export async function verifyWithAccount(
  farebox: Pick<Farebox, 'verify' | 'receipts'>,
  receipt: string | Receipt,
  options: VerifyOptions,
): Promise<ReceiptVerification> {
  const { receiptToken: token, signal } = options
  try {
    return await farebox.verify(receipt, options)
  } catch (error) {
    const isUnknown = (error as { readonly code?: unknown }).code === 'receipt_unknown'
    if (!isUnknown || token !== undefined) throw error
    for await (const { receiptId, receiptToken } of farebox.receipts({ source: 'service', signal }))
      if (receiptId === receipt && receiptToken !== null)
        return await farebox.verify(receipt, { ...options, receiptToken })
    throw error
  }
}
