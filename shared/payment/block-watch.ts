type Hex = `0x${string}`

/**
 * Why a wait ended. `listed`: a new block contains one of the transactions. `moved`: the chain continued in a way that
 * may concern them, for example past blocks that were not seen. `elapsed`: the time is up. `aborted`: by the signal.
 */
export type ChainNews = 'listed' | 'moved' | 'elapsed' | 'aborted'

export interface NextOptions {
  /** The wait ends after this time in any case. */
  readonly longestMs: number
  readonly signal: AbortSignal
  /** Ends with every new block. For a transaction that is mined but not deep enough yet. */
  readonly everyBlock?: boolean
  /** A transaction was sent a moment ago; a chain that mines immediately is asked immediately. */
  readonly justSent?: boolean
}

/** Transactions of one settlement that are being followed. */
export interface Following {
  /** Replaces the transactions that are followed. */
  setTransactions(hashes: readonly Hex[]): void
  /** Waits for the next news. What happened since the previous wait ended counts as well. */
  next(options: NextOptions): Promise<ChainNews>
  stop(): void
}

/** The expected times of blocks, by `performance.now()`. */
export interface NextBlock {
  /** The time of the newest block, as far as earlier blocks let expect it. */
  readonly sinceMs: number
  readonly expectedMs: number
}

/** Follows the head of the chain for everything in this process that waits for a block, with one poll for all. */
export interface BlockWatch {
  /** Starts following transactions. Call it before they are sent, so that no block is missed. */
  follow(hashes: readonly Hex[]): Following
  /**
   * Returns when the next block is expected; `null` on a chain that mines immediately, and while too few blocks were
   * seen to tell.
   */
  nextBlock(): NextBlock | null
}
