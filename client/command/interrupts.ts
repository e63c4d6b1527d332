import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'

/** The two steps in which a command is asked to end. */
export interface Interrupts {
  /** Aborted at the first request: begin nothing more. */
  readonly finish: AbortSignal
  /** Aborted at the second SIGINT, and at once by SIGTERM and SIGHUP: leave what is under way. */
  readonly abort: AbortSignal
  readonly stop: () => void
}

/** Listens to the signals of the process. A third SIGINT ends it without waiting for anything. */
export function listenToInterrupts(io: Io): Interrupts {
  const finish = new AbortController()
  const abort = new AbortController()
  const stop = io.onEndRequest((signal) => {
    if (abort.signal.aborted) return io.exit(EXIT.interrupted)
    if (finish.signal.aborted || signal !== 'SIGINT') abort.abort()
    finish.abort()
  })
  return { finish: finish.signal, abort: abort.signal, stop }
}
