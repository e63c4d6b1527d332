import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Configuration, Switches } from './configuration.ts'

/** How often a process asks whether the configuration has changed. */
const POLL_MS = 1000

export interface WatchOptions {
  readonly reader: {
    /** Reads the revision alone, which is cheap enough to poll. */
    readRevision(): Promise<bigint>
    readSwitches(): Promise<Switches>
    /** Returns `null` before deployments were published. */
    readConfiguration(): Promise<Configuration | null>
  }
  /** Called before the first reading, and again until it succeeds: imports the files of the first process. */
  readonly prepare?: () => Promise<void>
  /** Takes over what operators switched; called before `apply`, and also while the configuration cannot be applied. */
  readonly applySwitches: (switches: Switches) => void
  /** Takes over a changed configuration. When it throws, the process keeps the last one and tries again. */
  readonly apply: (configuration: Configuration) => Promise<void> | void
  readonly logger: Logger
  readonly pollMs?: number
}

export interface ConfigurationWatch {
  /** Returns the revision that was applied last; `null` before the first one. */
  appliedRevision(): bigint | null
  /** Resolves after the first poll, whether or not it succeeded. */
  readonly firstPoll: Promise<void>
  /** Resolves when no poll is in progress any more. */
  close(): Promise<void>
}

/** Applies the configuration at its first reading and after each change. A failed poll keeps the last one. */
export function watchConfiguration({
  reader,
  prepare,
  applySwitches,
  apply,
  logger,
  pollMs = POLL_MS,
}: WatchOptions): ConfigurationWatch {
  const closing = new AbortController()
  let applied: bigint | null = null
  let isPrepared = false
  let reported: string | null = null
  const report = (error: unknown) => {
    const message = error instanceof Error ? error.message : String(error)
    // Once for each cause: the next poll follows a second later.
    if (message !== reported) logger.error('the configuration was not applied; the last one stays in force', { error })
    reported = message
  }
  const poll = async () => {
    try {
      if (!isPrepared) await prepare?.()
      isPrepared = true
      const revision = await reader.readRevision()
      if (revision !== applied) {
        applySwitches(await reader.readSwitches())
        const configuration = await reader.readConfiguration()
        if (configuration !== null) {
          await apply(configuration)
          // The one that was read first: what changed since is read again.
          applied = revision
          logger.info(`applied revision ${applied} of the configuration`)
        }
      }
      reported = null
    } catch (error) {
      report(error)
    }
  }
  const firstPoll = poll()
  const pollOn = async () => {
    await firstPoll
    while (await elapses(pollMs, closing.signal)) await poll()
  }
  const polling = pollOn()
  return {
    appliedRevision: () => applied,
    firstPoll,
    close: async () => {
      closing.abort()
      await polling
    },
  }
}

/** Returns whether the time passed without an abort. */
async function elapses(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(milliseconds, undefined, { signal })
    return true
  } catch {
    return false
  }
}
