import { readFile } from 'node:fs/promises'
import type { VerifiedEntry } from '../journal/entries.ts'
import { openNode } from '../wallet/node-client.ts'
import { uncharged } from '../wire/farebox-error.ts'
import type { Receipt } from '../wire/schemas.ts'
import { checkReceipt, problemsOf, type ReceiptContext } from './check-receipt.ts'
import { fetchReceipt, readReceipt } from './read-receipt.ts'
import type { ReceiptVerification, VerifyOptions } from './receipt-check.ts'
import { isReceiptId } from './receipt-store.ts'
import { givenKeys } from './signing-keys.ts'

/**
 * Checks a receipt and journals the outcome. An id is fetched from the service, with the token of the journal or of the
 * options; any other text is the path of a saved receipt. Throws when it cannot be read or the keys cannot be.
 */
export async function verifyReceipt(
  context: ReceiptContext,
  given: string | Receipt,
  { rpcUrl, receiptToken, resultBody, signingKey, isOfAnyone = false, signal }: VerifyOptions = {},
): Promise<ReceiptVerification> {
  const receipt = await readGiven(context, given, receiptToken, signal)
  const node = rpcUrl === undefined ? await context.node() : await openNode(rpcUrl)
  const checking = {
    ...context,
    ...(isOfAnyone && { payer: undefined }),
    ...(signingKey !== undefined && { keys: await givenKeys(signingKey) }),
  }
  const checked = await checkReceipt(checking, receipt, node, null, resultBody)
  const verification = rpcUrl === undefined ? checked : requiringTransfer(checked)
  recordVerification(context, verification)
  return verification
}

/** A node that the caller named, and that could not be asked, proves nothing. */
function requiringTransfer(verification: ReceiptVerification): ReceiptVerification {
  const isMissing = verification.checks.some(({ name, outcome }) => name === 'transfer' && outcome === 'skipped')
  if (!isMissing) return verification
  const checks = verification.checks.map((check) =>
    check.name === 'transfer' ? { ...check, outcome: 'failed' as const } : check,
  )
  return { ...verification, outcome: 'failed', checks }
}

/** Journals the outcome of a receipt that the journal knows. */
export function recordVerification(context: ReceiptContext, verification: ReceiptVerification): void {
  const { receiptId, outcome, receipt } = verification
  const key = context.journal.attempts.withReceipt(receiptId)?.key
  if (key !== undefined)
    journalOutcome(context, { key, receiptId, outcome, problems: problemsOf(verification), model: receipt.model })
}

/** Journals an outcome. A journal that cannot be written changes none. */
export function journalOutcome({ journal }: ReceiptContext, outcome: Omit<VerifiedEntry, 'phase' | 'at'>): void {
  try {
    journal.append({ phase: 'verified', ...outcome })
  } catch {
    // The receipt can be verified again.
  }
}

async function readGiven(
  context: ReceiptContext,
  given: string | Receipt,
  receiptToken: string | undefined,
  signal: AbortSignal | undefined,
): Promise<Receipt> {
  if (typeof given !== 'string') return readReceipt(given, 'The given object')
  if (!isReceiptId(given)) return await readReceiptFile(given)
  const known = context.journal.attempts.withReceipt(given)?.receipts.find(({ receiptId }) => receiptId === given)
  const token = receiptToken ?? known?.receiptToken ?? null
  if (token === null)
    throw uncharged(
      'receipt_unknown',
      `The journal does not know the receipt ${given}.`,
      'Pass its token, which came with the answer, or verify it on the machine that paid.',
    )
  const receipt = await fetchReceipt(context, given, token, { signal })
  await context.store.save(receipt)
  return receipt
}

async function readReceiptFile(path: string): Promise<Receipt> {
  let value: unknown
  try {
    value = JSON.parse(await readFile(path, 'utf8'))
  } catch (cause) {
    throw uncharged(
      'receipt_unreadable',
      `The receipt ${path} cannot be read as JSON.`,
      'Pass the id of a receipt or the path of a saved one.',
      cause,
    )
  }
  return readReceipt(value, path)
}
