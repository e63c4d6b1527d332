/** A stream for people or programs, as far as it is needed here. */
export interface OutputStream {
  /** Calls back when the chunk was taken, or with an error. */
  write(chunk: string | Uint8Array, taken?: (error?: Error | null) => void): boolean
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  hasColors?(count?: number, environment?: NodeJS.ProcessEnv): boolean
}

export type InputStream = NodeJS.ReadableStream & { readonly isTTY?: boolean }

/** What the program uses of its process. */
export interface Io {
  readonly stdin: InputStream
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly environment: Readonly<NodeJS.ProcessEnv>
  /** Calls the listener at each signal that asks the program to end; returns how to stop it. */
  onEndRequest(listener: (signal: EndSignal) => void): () => void
  /** Ends the process at once. */
  exit(code: number): void
}

export type EndSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

const END_SIGNALS: readonly EndSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Returns the streams, environment and signals of this process. */
export function processIo(): Io {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreClosedPipe)
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    environment: process.env,
    onEndRequest(listener) {
      const hear = withoutRepeats(listener)
      for (const signal of END_SIGNALS) process.on(signal, hear)
      return () => {
        for (const signal of END_SIGNALS) process.off(signal, hear)
      }
    },
    exit: (code) => process.exit(code),
  }
}

/** npx sends on what a terminal has sent to all of its processes already: one Ctrl-C arrives twice. */
const SENT_ON_WITHIN_MS = 500

function withoutRepeats(listener: (signal: EndSignal) => void): (signal: EndSignal) => void {
  const heardMs = new Map<EndSignal, number>()
  return (signal) => {
    const sinceMs = performance.now() - (heardMs.get(signal) ?? Number.NEGATIVE_INFINITY)
    if (sinceMs <= SENT_ON_WITHIN_MS) return
    heardMs.set(signal, performance.now())
    listener(signal)
  }
}

/** A reader such as `head` may leave early; the files are written all the same. */
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}
