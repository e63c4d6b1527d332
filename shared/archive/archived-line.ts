/** What moves of one call, each as JSON text, so that it stays exactly as it was stored. */
export interface CallDocuments {
  readonly jobId: string
  readonly receiptId: string
  readonly payer: string
  readonly finishedAt: Date
  /** The receipt's body. */
  readonly receipt: string
  /** Every authorization of the call: `{"id", "signed"}`. */
  readonly authorizations: string
  readonly terms: string
  /** The terms of the key's last quote. */
  readonly keyTerms: string
  readonly paymentResponse: string
}

/** A signed transaction. */
export interface TransactionDocument {
  readonly hash: string
  readonly network: string
  readonly sender: string
  readonly accountNonce: string
  readonly settlementId: string | null
  readonly batchId: string | null
  readonly raw: string
}

/** How every line of a call begins: a line is found by its receipt without parsing the others. */
const BEGINNING = '{"receipt_id":"'
const UUID_LENGTH = 36

/** Writes the line of a call. */
export function callLine(call: CallDocuments): string {
  const named = JSON.stringify({ job_id: call.jobId, payer: call.payer, finished_at: call.finishedAt }).slice(1, -1)
  const documents = [
    `"receipt":${call.receipt}`,
    `"authorizations":${call.authorizations}`,
    `"terms":${call.terms}`,
    `"key_terms":${call.keyTerms}`,
    `"payment_response":${call.paymentResponse}`,
  ]
  return `${BEGINNING}${call.receiptId}",${named},${documents.join(',')}}`
}

export function transactionLine(transaction: TransactionDocument): string {
  const { accountNonce: account_nonce, settlementId: settlement_id, batchId: batch_id, ...named } = transaction
  return JSON.stringify({ ...named, account_nonce, settlement_id, batch_id })
}

/** Returns the hash of the transaction in a line; `null` for the line of a call. */
export function transactionHashOf(line: string): string | null {
  return receiptIdOf(line) === null ? (JSON.parse(line) as TransactionDocument).hash : null
}

/** Returns the id of the receipt in a call's line; `null` for any other line. */
export function receiptIdOf(line: string): string | null {
  if (!line.startsWith(BEGINNING)) return null
  return line.slice(BEGINNING.length, BEGINNING.length + UUID_LENGTH)
}

/** Returns the body of the receipt in a call's line. */
export function receiptOf(line: string): object {
  return (JSON.parse(line) as { receipt: object }).receipt
}
