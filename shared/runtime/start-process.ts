/** What keeps a process from starting and an operator can mend. The message names the setting and quotes no secret. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure'
}

/** Does `work`; whatever it throws becomes a failure of `setting`. */
export async function underSetting<T>(setting: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StartFailure) throw error
    throw new StartFailure(`${setting}: ${error instanceof Error ? error.message : 'unusable'}`, { cause: error })
  }
}

/**
 * Runs the start of a process. A failure ends it with exit code 1 and says why on standard error: one message for what an
 * operator can mend, the stacks for everything else, and never the properties that libraries hang on their errors.
 */
export async function startProcess(name: string, start: () => Promise<void>): Promise<void> {
  try {
    await start()
  } catch (error) {
    console.error(`The ${name} did not start. ${describe(error)}`)
    process.exit(1)
  }
}

function describe(error: unknown): string {
  if (error instanceof StartFailure) return error.message
  if (!(error instanceof Error)) return 'Something was thrown that is no error.'
  const cause = error.cause === undefined ? '' : `\ncaused by ${describe(error.cause)}`
  return `${error.stack ?? error.message}${cause}`
}
