import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** Delay between attempts to reconnect; outcomes are polled in the meantime. */
const RECONNECT_DELAY_MS = 500
/** How long a server may take to answer while a connection is opened: one may accept it and hang. */
const ANSWER_TIMEOUT_MS = 5000
/** The end of a connection waits for the server to close it as well. */
const GOODBYE_MS = 500

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
    await delay(RECONNECT_DELAY_MS, undefined, { signal: closing }).catch(() => undefined)
  }
}

/** Returns when closing; throws when the connection is lost. */
async function listenOnce(options: ListenOptions, closing: AbortSignal): Promise<void> {
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: 'farebox outcome listener',
    keepAlive: true,
    connectionTimeoutMillis: ANSWER_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
  })
  const lost = Promise.withResolvers<void>()
  // A connection lost before the await below fails `connect` or the statement; this rejection would be unhandled.
  lost.promise.catch(() => undefined)
  client.on('error', lost.reject)
  client.on('end', () => lost.resolve())
  client.on('notification', ({ payload }) => {
    if (payload) options.onOutcome(payload)
  })
  const stopped = Promise.withResolvers<unknown>()
  closing.addEventListener('abort', stopped.resolve)
  const listening = async () => {
    await client.connect()
    await client.query('LISTEN farebox_outcomes')
    await lost.promise
  }
  try {
    await Promise.race([listening(), stopped.promise])
  } finally {
    closing.removeEventListener('abort', stopped.resolve)
    // Rejects when the connection is already lost.
    const ended = client.end().catch(() => undefined)
    await withDeadline(GOODBYE_MS, ended, () => undefined)
  }
}
