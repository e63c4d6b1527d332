import type { Hex } from 'viem'
import { callRpc } from './json-rpc.ts'

/** How often anvil's queue is looked at. */
const LOOK_EVERY_MS = 1000

interface TransactionPool {
  /** Transactions that wait for an earlier account nonce, by sender and nonce. */
  readonly queued: Readonly<Record<Hex, Readonly<Record<string, { readonly hash: Hex }>>>>
}

/**
 * Mines transactions that anvil forgot, until the returned function is called.
 *
 * When anvil mines an account nonce while it adds the next one, the next one waits in the queue permanently for a
 * predecessor that is already mined, and every later nonce of the account waits behind it. Sending it again has no
 * effect ("already imported"). A real node promotes it with the next block.
 */
export function watchStrandedTransactions(rpcUrl: string): () => void {
  let isLooking = false
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    resendStrandedTransactions(rpcUrl)
      // The chain has stopped, or answers again at the next look.
      .catch(() => undefined)
      .finally(() => {
        isLooking = false
      })
  }, LOOK_EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}

async function resendStrandedTransactions(rpcUrl: string): Promise<void> {
  const { queued } = await callRpc<{ queued: Hex }>(rpcUrl, 'txpool_status', [])
  if (Number(queued) === 0) return
  const pool = await callRpc<TransactionPool>(rpcUrl, 'txpool_content', [])
  for (const [sender, transactions] of Object.entries(pool.queued)) {
    const nonces = Object.keys(transactions).toSorted((one, other) => Number(one) - Number(other))
    const count = await callRpc<Hex>(rpcUrl, 'eth_getTransactionCount', [sender, 'latest'])
    // Otherwise a nonce is missing, and the queue is the right place.
    if (Number(nonces[0]) !== Number(count)) continue
    const hashes = nonces.map((nonce) => transactions[nonce]?.hash)
    const raws = await Promise.all(hashes.map((hash) => callRpc<Hex>(rpcUrl, 'eth_getRawTransactionByHash', [hash])))
    await callRpc(rpcUrl, 'anvil_removePoolTransactions', [sender])
    // Its sender may have sent one again in the meantime, which anvil refuses. The others must not be lost with it.
    for (const raw of raws) await callRpc(rpcUrl, 'eth_sendRawTransaction', [raw]).catch(() => undefined)
  }
}
