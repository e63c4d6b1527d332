import type { Readable, Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { LARGEST_MESSAGE_BYTES, MessageLines } from './message-lines.ts'

/** The protocol over standard input and output, with an answer for lines that are no messages. */
export class LineTransport extends StdioServerTransport {
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
