import pg from 'pg'

/** Between attempts to listen again after the connection was lost; the poll covers the gap. */
const RECONNECT_DELAY_MS = 500

export interface OutcomeListener {
  close(): Promise<void>
}

/**
 * Listens for `farebox_outcomes` on one connection, whatever the number of waiting callers, and reconnects by itself.
 * `onOutcome` gets the id of a job whose row is worth reading; notifications may be missed and say nothing by themselves.
 */
export function listenForOutcomes(options: {
  connectionString: string
  onOutcome: (jobId: string) => void
  onError: (error: unknown) => void
}): OutcomeListener {
  const closing = new AbortController()
  const finished = keepListening(options, closing.signal)
  return {
    close: async () => {
      closing.abort()
      await finished
    },
  }
}

async function keepListening(options: Parameters<typeof listenForOutcomes>[0], closing: AbortSignal): Promise<void> {
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
async function listenOnce(options: Parameters<typeof listenForOutcomes>[0], closing: AbortSignal): Promise<void> {
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: 'farebox outcome listener',
    keepAlive: true,
  })
  const lost = Promise.withResolvers<void>()
  // A connection that is lost before anyone waits here fails `connect` or the statement; unhandled it would end the process.
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
      // The connection is gone already; there is nothing left to end.
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
