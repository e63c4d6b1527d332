import { setTimeout as delay } from 'node:timers/promises'
import { type Hex, type PublicClient, type TransactionReceipt, TransactionReceiptNotFoundError } from 'viem'

const POLL_MS = 20
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
  while (Date.now() < giveUpAt) {
    try {
      return await client.getTransactionReceipt({ hash })
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error
    }
    await delay(POLL_MS)
  }
  throw new Error(`transaction ${hash} was not mined within a minute`)
}
