import { watchRequests } from './watch-requests.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** A failed start that an operator can fix. The message names the setting and quotes no secret. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure'
}

/** Runs `work` and rethrows its error as a `StartFailure` of `setting`. */
export async function namingSetting<T>(setting: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StartFailure) throw error
    throw new StartFailure(`${setting}: ${error instanceof Error ? error.message : 'unusable'}`, { cause: error })
  }
}

/**
 * Starts a process. A server that does not answer in the meantime is named on standard error. A failure exits with code 1
 * and prints the reason to standard error: the message of a `StartFailure`, the stacks of any other error, and never the
 * properties that libraries attach to errors. SIGTERM and SIGINT end a start at once, with nothing to finish and code 0.
 */
export async function startProcess(name: string, start: () => Promise<void>): Promise<void> {
  const stopWatching = watchRequests((clause) => console.error(`The ${name} is ${clause}.`))
  // A container's first process gets no signal that it has no handler for.
  for (const signal of SIGNALS) process.on(signal, endAtOnce)
  try {
    await start()
    stopWatching()
    for (const signal of SIGNALS) process.off(signal, endAtOnce)
  } catch (error) {
    console.error(`The ${name} did not start. ${describe(error)}`)
    process.exit(1)
  }
}

function endAtOnce(): never {
  process.exit(0)
}

function describe(error: unknown): string {
  if (error instanceof StartFailure) return error.message
  if (!(error instanceof Error)) return 'A value that is not an error was thrown.'
  const cause = error.cause === undefined ? '' : `\ncaused by ${describe(error.cause)}`
  return `${error.stack ?? error.message}${cause}`
}
