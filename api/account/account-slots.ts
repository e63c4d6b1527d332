import pLimit from 'p-limit'
import { AppError } from '#shared/errors/app-error.ts'

/** Queries of one process at the same time: paid calls share its database connections. */
const CONCURRENT = 2
/** Queries that wait for a slot, in total and of one wallet. */
const WAITING = 64
const OF_ONE_WALLET = 8

const RETRY_AFTER_SECONDS = 1

/** Runs the queries of wallets, a few at a time. */
export type AccountSlots = <Result>(address: string, query: () => Promise<Result>) => Promise<Result>

/**
 * Creates the slots in which accounts are read. A wallet with many receipts can ask for expensive pages and sums, which
 * must neither take the connections of paid calls nor all slots of other wallets. Throws `rate_limited` for a wallet
 * that reads too much at the same time, and `overloaded`.
 */
export function createAccountSlots(): AccountSlots {
  const limit = pLimit(CONCURRENT)
  const ofWallet = new Map<string, number>()
  return async (address, query) => {
    const own = ofWallet.get(address) ?? 0
    if (own >= OF_ONE_WALLET)
      throw new AppError('rate_limited', {
        message: `This wallet reads its account in ${own} requests at the same time. Wait for them, then retry.`,
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    if (limit.pendingCount >= WAITING) throw new AppError('overloaded', { retryAfterSeconds: RETRY_AFTER_SECONDS })
    ofWallet.set(address, own + 1)
    try {
      return await limit(query)
    } finally {
      const left = (ofWallet.get(address) ?? 1) - 1
      if (left === 0) ofWallet.delete(address)
      else ofWallet.set(address, left)
    }
  }
}
