import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { LineTransport } from './stdio/line-transport.ts'

export interface ServeOptions {
  readonly stdin: Readable
  readonly stdout: Writable
  /** Ends the connection. */
  readonly signal: AbortSignal
  readonly createServer: (onCall: (work: Promise<unknown>) => void) => McpServer
  readonly onError: (error: unknown) => void
}

/** What a call may take to write down how far it came. */
const LONGEST_END_MS = 5000

/**
 * Serves one client until it leaves or the signal is aborted, which interrupts the calls under way. Returns when they have
 * written down how far they came: repeated under the same key, they are charged once.
 */
export async function serve({ stdin, stdout, signal, createServer, onError }: ServeOptions): Promise<void> {
  const underWay = new Set<Promise<unknown>>()
  const transport = new LineTransport(stdin, stdout)
  const onCall = (work: Promise<unknown>) => {
    underWay.add(work)
    const over = () => underWay.delete(work)
    work.then(over, over)
  }
  const handle = serveStdio(() => createServer(onCall), { transport, onerror: onError })
  const close = () => void handle.close()
  if (signal.aborted) close()
  else signal.addEventListener('abort', close, { once: true })
  await transport.closed
  signal.removeEventListener('abort', close)
  await Promise.race([Promise.allSettled(underWay), sleep(LONGEST_END_MS, undefined, { ref: false })])
}
