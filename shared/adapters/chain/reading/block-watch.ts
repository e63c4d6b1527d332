import type { BlockWatch, ChainNews, Following, NextOptions } from '#shared/payment/block-watch.ts'
import type { Block, LatestBlock } from './latest-block.ts'
import { createPollPace } from './poll-pace.ts'

type Hex = `0x${string}`

interface Follower {
  hashes: readonly Hex[]
  everyBlock: boolean
  /** Ends the current wait, or is remembered for the next one. */
  notify(news: ChainNews): void
}

/**
 * Creates the watch of the chain's head. While anything waits, one poll for all reads the newest block with the hashes
 * of its transactions: one RPC call for each poll, none while nothing waits. Only those whose transaction is in the new
 * block are woken. When blocks were replaced, or passed between two polls, everything that waits is woken, since any
 * transaction may be in a block that was not seen.
 */
export function createBlockWatch(latest: LatestBlock): BlockWatch {
  const followers = new Set<Follower>()
  const pace = createPollPace()
  let head: Block | null = null
  const waiting = new Set<Follower>()
  let isPolling = false

  const poll = async (): Promise<boolean> => {
    const block = await latest.read().catch(() => null)
    // A node behind the others is no news. While none answers, those that wait ask for their receipts by themselves.
    if (block === null || block.hash === head?.hash || (head && block.number < head.number)) return false
    const isNext = block.parentHash === head?.hash
    head = block
    const listed = new Set(block.transactions)
    for (const follower of followers)
      if (follower.hashes.some((hash) => listed.has(hash))) follower.notify('listed')
      else if (!isNext || follower.everyBlock) follower.notify('moved')
    return true
  }

  const pollWhileAnythingWaits = async () => {
    if (isPolling) return
    isPolling = true
    while (waiting.size > 0) {
      await pace.pause()
      if (waiting.size > 0) pace.polled(await poll())
    }
    isPolling = false
  }

  return {
    follow: (hashes) => {
      let unread: ChainNews | null = null
      let end: ((news: ChainNews) => void) | null = null
      const follower: Follower = {
        hashes,
        everyBlock: false,
        notify: (news) => {
          if (end) end(news)
          else if (unread !== 'listed') unread = news
        },
      }
      followers.add(follower)
      const wait = ({ longestMs, signal }: NextOptions) =>
        new Promise<ChainNews>((resolve) => {
          const onAbort = () => end?.('aborted')
          const timer = setTimeout(() => end?.('elapsed'), longestMs)
          signal.addEventListener('abort', onAbort, { once: true })
          waiting.add(follower)
          end = (news) => {
            clearTimeout(timer)
            signal.removeEventListener('abort', onAbort)
            waiting.delete(follower)
            end = null
            resolve(news)
          }
        })
      const following: Following = {
        setTransactions: (changed) => {
          follower.hashes = changed
        },
        next: async (options) => {
          const { signal, everyBlock = false, justSent = false } = options
          if (signal.aborted) return 'aborted'
          const news = unread
          unread = null
          if (news) return news
          follower.everyBlock = everyBlock
          if (justSent) pace.hurry()
          const waited = wait(options)
          void pollWhileAnythingWaits()
          return await waited
        },
        stop: () => void followers.delete(follower),
      }
      return following
    },
  }
}
