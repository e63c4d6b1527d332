import { setTimeout as delay } from 'node:timers/promises'
import { type Hex, type PublicClient, type TransactionReceipt, TransactionReceiptNotFoundError } from 'viem'

/** A node that mines at once takes a few milliseconds, one with blocks seconds: each pause is twice the one before. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [1, 20]
/** Only a transaction that is never mined takes longer. */
const PATIENCE_MS = 60_000

/**
 * Waits until a development node has mined a transaction. viem's own wait polls once per block, but anvil may report a block
 * before its receipts, and no further block follows where it mines on demand.
 *
 * @throws Error when it is not mined within a minute, and viem's own error when the node cannot be reached.
 */
export async function waitForReceipt(
  client: Pick<PublicClient, 'getTransactionReceipt'>,
  hash: Hex,
): Promise<TransactionReceipt> {
  const giveUpAt = Date.now() + PATIENCE_MS
  for (let pauseMs = FIRST_PAUSE_MS; Date.now() < giveUpAt; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await client.getTransactionReceipt({ hash })
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error
    }
    await delay(pauseMs)
  }
  throw new Error(`transaction ${hash} was not mined within a minute`)
}
