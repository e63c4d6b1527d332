import pg from 'pg'

/** Delay between attempts to reconnect; outcomes are polled in the meantime. */
const RECONNECT_DELAY_MS = 500

export interface OutcomeListener {
  close(): Promise<void>
}

interface ListenOptions {
  connectionString: string
  onOutcome: (jobId: string) => void
  onError: (error: unknown) => void
}

/**
 * Listens for `farebox_outcomes` on one connection, for any number of waiting callers, and reconnects when it is lost.
 * `onOutcome` receives the id of a job that has finished. Notifications may be lost; only the job's row is
 * authoritative.
 */
export function listenForOutcomes(options: ListenOptions): OutcomeListener {
  const closing = new AbortController()
  const finished = keepListening(options, closing.signal)
  return {
    close: async () => {
      closing.abort()
      await finished
    },
  }
}

async function keepListening(options: ListenOptions, closing: AbortSignal): Promise<void> {
  while (!closing.aborted) {
    try {
      await listenOnce(options, closing)
    } catch (error) {
      options.onError(error)
    }
    if (!closing.aborted) await waitOrClose(RECONNECT_DELAY_MS, closing)
  }
}

/** Returns when closing; throws when the connection is lost. */
async function listenOnce(options: ListenOptions, closing: AbortSignal): Promise<void> {
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: 'farebox outcome listener',
    keepAlive: true,
  })
  const lost = Promise.withResolvers<void>()
  // A connection lost before the await below fails `connect` or the statement; this rejection would be unhandled.
  lost.promise.catch(() => undefined)
  client.on('error', lost.reject)
  client.on('end', () => lost.resolve())
  client.on('notification', ({ payload }) => {
    if (payload) options.onOutcome(payload)
  })
  const stop = () => lost.resolve()
  closing.addEventListener('abort', stop)
  try {
    await client.connect()
    await client.query('LISTEN farebox_outcomes')
    if (!closing.aborted) await lost.promise
  } finally {
    closing.removeEventListener('abort', stop)
    await client.end().catch(() => {
      // The connection is already lost.
    })
  }
}

function waitOrClose(delayMs: number, closing: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, delayMs)
  closing.addEventListener('abort', () => {
    clearTimeout(timer)
    resolve()
  })
  return promise
}
