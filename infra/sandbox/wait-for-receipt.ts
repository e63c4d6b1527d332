import { setTimeout as delay } from 'node:timers/promises'
import { type Hex, type PublicClient, type TransactionReceipt, TransactionReceiptNotFoundError } from 'viem'

const LOOK_AGAIN_MS = 20
/** Nothing takes that long but a transaction that is never mined. */
const PATIENCE_MS = 60_000

/**
 * Waits until a development node has mined a transaction. viem's own wait looks once for each block that it sees; anvil may tell
 * of a block a moment before its receipts, and where it mines on demand no further block comes.
 *
 * @throws Error when it is not mined within a minute, and viem's own error when the node cannot be asked.
 */
export async function waitForReceipt(
  client: Pick<PublicClient, 'getTransactionReceipt'>,
  hash: Hex,
): Promise<TransactionReceipt> {
  const giveUpAt = Date.now() + PATIENCE_MS
  while (Date.now() < giveUpAt) {
    try {
      return await client.getTransactionReceipt({ hash })
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error
    }
    await delay(LOOK_AGAIN_MS)
  }
  throw new Error(`transaction ${hash} was not mined within a minute`)
}
