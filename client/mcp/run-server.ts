import { dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import type { BudgetAmounts } from '../budget/limits.ts'
import { createConfirmations } from './confirm/confirmations.ts'
import { openFolders } from './folders/open-folders.ts'
import { openLimits } from './limits/open-limits.ts'
import { createServer } from './server.ts'
import { openSession, type SessionSettings } from './session.ts'
import { LARGEST_MESSAGE_BYTES, MessageLines } from './stdio/message-lines.ts'
import { TOOLS } from './tools/tools.ts'

/** What a call may take to write down how far it came. */
const LONGEST_END_MS = 5000

/** The protocol over standard input and output, with an answer for lines that are no messages. */
class LineTransport extends StdioServerTransport {
  /** Resolves when the client has left or the connection was closed. */
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => undefined
  readonly #release: () => void

  constructor(stdin: Readable, stdout: Writable) {
    const lines = new MessageLines(({ code, message, id }) => {
      stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })}\n`)
    })
    // A line and the one before it, if that is still in the buffer.
    super(lines, stdout, { maxBufferSize: 2 * LARGEST_MESSAGE_BYTES + 2 })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    stdin.pipe(lines)
    // An input that breaks off has no end of its own.
    const end = () => lines.end()
    stdin.on('close', end).on('error', end)
    this.#release = () => {
      stdin.unpipe(lines)
      stdin.off('close', end).pause()
    }
  }

  override async close(): Promise<void> {
    await super.close()
    this.#release()
    this.#resolveClosed()
  }
}

interface ServerOptions extends SessionSettings {
  readonly version: string
  /** Folders that tools may read and write. */
  readonly folders: readonly string[]
  readonly allowsPrivateAddresses: boolean
  /** Budgets of the command line, which hold where they are lower than the limits. */
  readonly budgets: BudgetAmounts
  readonly stdin: Readable
  readonly stdout: Writable
  /** Ends the server. */
  readonly signal: AbortSignal
  /** Called with errors that only the person who started the server may see. */
  readonly onError: (error: unknown) => void
}

/** Runs the server of one client until it leaves. Throws a `FareboxError` for folders that cannot be allowed. */
export async function runServer(options: ServerOptions): Promise<void> {
  const { version, allowsPrivateAddresses, home, budgets, onError } = options
  const limits = openLimits(home, budgets)
  const { keyFile, environment } = options
  const wallets = [keyFile, environment['FAREBOX_KEY_FILE'], environment['FAREBOX_WALLET_MODULE']]
  const hidden = [home, dirname(limits.path), ...wallets.flatMap((path) => path || [])]
  const folders = await openFolders({ folders: options.folders, hidden, allowsPrivateAddresses })
  const session = openSession(options, { limits, folders })
  const confirmations = createConfirmations(limits)
  const parts = { session, tools: TOOLS, version, onError, confirmations }
  try {
    await serve(options, (onCall) => createServer({ ...parts, onCall }))
  } finally {
    await session.close()
  }
}

/**
 * Serves one client until it leaves or the signal is aborted, which interrupts the calls under way. Returns when they have
 * written down how far they came: repeated under the same key, they are charged once.
 */
async function serve(
  { stdin, stdout, signal, onError }: Pick<ServerOptions, 'stdin' | 'stdout' | 'signal' | 'onError'>,
  open: (onCall: (work: Promise<unknown>) => void) => McpServer,
): Promise<void> {
  const underWay = new Set<Promise<unknown>>()
  const transport = new LineTransport(stdin, stdout)
  const onCall = (work: Promise<unknown>) => {
    underWay.add(work)
    const over = () => underWay.delete(work)
    work.then(over, over)
  }
  const handle = serveStdio(() => open(onCall), { transport, onerror: onError })
  const close = () => void handle.close()
  if (signal.aborted) close()
  else signal.addEventListener('abort', close, { once: true })
  await transport.closed
  signal.removeEventListener('abort', close)
  await Promise.race([Promise.allSettled(underWay), sleep(LONGEST_END_MS, undefined, { ref: false })])
}
