import pLimit from 'p-limit'
import type { BlockReader } from '#shared/chain/reading/block-reader.ts'
import type { AllowanceWorkStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { ClaimedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../sweepers/sweeper.ts'
import { type FollowPermitDependencies, followPermit } from './follow-permit.ts'
import { type SignPermitDependencies, signPermit } from './sign-permit.ts'

export type AllowanceDependencies = Omit<SignPermitDependencies, 'allowanceStore'> &
  Omit<FollowPermitDependencies, 'allowanceStore' | 'limitReads'> & { readonly allowanceStore: AllowanceWorkStore }

/** The permits that a process works on concurrently. Each waits for a block or two, nearly without work. */
const CONCURRENT_PERMITS = 64
const CONCURRENT_READS = 16
/** Delays of permits that wait for the chain: half their age, within these bounds. */
const SHORTEST_DELAY_MS = 1000
const LONGEST_DELAY_MS = 30_000

/** Works on sponsored permits in the background. */
export interface AllowanceRunner {
  /** Claims what is due. A wake-up may be lost: the sweep finds it. */
  readonly sweep: Sweep
  /** Looks for due permits now; called for each notification. */
  wake(): void
  /** Waits until nothing is being worked on. For tests, and for a stop without a signal. */
  settled(): Promise<void>
  /** Hands back what is being worked on: it is due immediately, for another worker. */
  stop(): Promise<void>
}

export function createAllowanceRunner(dependencies: AllowanceDependencies): AllowanceRunner {
  const { allowanceStore, leaseMs, logger } = dependencies
  const stopping = new AbortController()
  const running = new Set<Promise<void>>()
  const withLimit = { ...dependencies, limitReads: pLimit(CONCURRENT_READS) }

  const start = (claim: ClaimedPermit) => {
    const run = runClaim(withLimit, claim, stopping.signal)
      // The lease ends, and the permit is due again.
      .catch((error: unknown) => logger.warn('a sponsored permit failed', { allowanceId: claim.allowanceId, error }))
      .finally(() => running.delete(run))
    running.add(run)
  }
  const claimDue = async () => {
    const free = CONCURRENT_PERMITS - running.size
    if (free <= 0 || stopping.signal.aborted) return 0
    const claims = await allowanceStore.claimAllowances(leaseMs, free)
    if (stopping.signal.aborted) {
      await Promise.all(claims.map((claim) => allowanceStore.releaseAllowance(claim, 0)))
      return 0
    }
    for (const claim of claims) start(claim)
    return claims.length
  }
  /** One statement at a time; a wake-up during it causes one more. */
  let claiming: Promise<number> | null = null
  let isWokenAgain = false
  const claimNext = async (): Promise<number> => {
    if (claiming) {
      isWokenAgain = true
      return await claiming
    }
    claiming = claimDue()
    try {
      return await claiming
    } finally {
      claiming = null
      if (isWokenAgain) {
        isWokenAgain = false
        wake()
      }
    }
  }
  const wake = () =>
    void claimNext().catch((error: unknown) => logger.warn('failed to look for sponsored permits', { error }))

  return {
    sweep: { name: 'took up sponsored permits', run: claimNext },
    wake,
    settled: async () => {
      while (running.size > 0) await Promise.all(running)
    },
    stop: async () => {
      stopping.abort()
      // A failure is logged by its caller; the leases end.
      await claiming?.catch(() => undefined)
      while (running.size > 0) await Promise.all(running)
    },
  }
}

async function runClaim(
  dependencies: AllowanceDependencies & Pick<FollowPermitDependencies, 'limitReads'>,
  claim: ClaimedPermit,
  signal: AbortSignal,
): Promise<void> {
  const { allowanceStore } = dependencies
  const release = (delayMs: number) => allowanceStore.releaseAllowance(claim, delayMs)
  const delayMs = Math.min(LONGEST_DELAY_MS, Math.max(SHORTEST_DELAY_MS, claim.ageMs / 2))
  let { signed } = claim
  if (!signed) {
    const signing = await signPermit(dependencies, claim)
    if (signing.next === 'ended') return
    if (signing.next === 'wait') return void (await release(delayMs))
    signed = signing.signed
  }
  const followed = await followPermit(dependencies, claim, signed, signal)
  if (followed === 'open') await release(signal.aborted ? 0 : delayMs)
}

interface AllowanceFinalityDependencies {
  readonly allowanceStore: Pick<
    AllowanceWorkStore,
    'findUnfinalAllowanceBlocks' | 'markAllowancesFinal' | 'reopenAllowances'
  >
  readonly blocks: BlockReader
  readonly logger: Logger
}

const FINALITY_POLL_MS = 5000

/**
 * Watches permits until the block that decided them is final. One whose block a reorganization removed is open again:
 * it is sent and judged as before. No RPC call while there is nothing to watch.
 */
export function watchAllowanceFinality({ allowanceStore, blocks, logger }: AllowanceFinalityDependencies): Sweep {
  return {
    name: 'finalized or reopened sponsored permits',
    leastIntervalMs: FINALITY_POLL_MS,
    run: async () => {
      const [newest] = await allowanceStore.findUnfinalAllowanceBlocks(0n)
      if (!newest) return 0
      const finalizedNumber = await blocks.readFinalizedNumber()
      const decided = await allowanceStore.findUnfinalAllowanceBlocks(finalizedNumber)
      const hashes = await Promise.all(decided.map(({ number }) => blocks.readHash(number)))
      const canonical = decided.filter(({ hash }, index) => hash === hashes[index])
      // A node behind the others has no block of that number, which proves nothing.
      const removed = decided.filter(({ hash }, index) => hashes[index] !== null && hash !== hashes[index])
      const final = canonical.filter(({ number }) => number <= finalizedNumber).map(({ hash }) => hash)
      const reopened = removed.length === 0 ? 0 : await allowanceStore.reopenAllowances(removed.map(({ hash }) => hash))
      if (reopened > 0) logger.warn('sponsored permits were removed from the chain', { count: reopened })
      return reopened + (final.length === 0 ? 0 : await allowanceStore.markAllowancesFinal(final))
    },
  }
}
