import { Transform, type TransformCallback } from 'node:stream'
import { isJSONRPCNotification, isJSONRPCRequest, isJSONRPCResponse } from '@modelcontextprotocol/server'

/** Why a line is not passed on, with the id to answer under if it has one. */
export interface RefusedLine {
  readonly code: number
  readonly message: string
  readonly id: string | number | null
}

/** More than any prompt in JSON; longer lines are dropped while they arrive. */
export const LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024

const NEWLINE = 0x0a
const PARSE_ERROR = -32_700
const INVALID_REQUEST = -32_600

/**
 * Passes on the lines that are messages of the protocol, each as one chunk. What is none is reported, and the connection
 * goes on: the library would leave such a line unanswered and end the connection at one that is too long.
 */
export class MessageLines extends Transform {
  readonly #refuse: (line: RefusedLine) => void
  readonly #largest: number
  #parts: Buffer[] = []
  #bytes = 0

  constructor(refuse: (line: RefusedLine) => void, largest = LARGEST_MESSAGE_BYTES) {
    super()
    this.#refuse = refuse
    this.#largest = largest
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#take(chunk.subarray(start, end))
      this.#endLine()
      start = end + 1
    }
    this.#take(chunk.subarray(start))
    done()
  }

  #take(part: Buffer): void {
    this.#bytes += part.length
    if (this.#bytes <= this.#largest) this.#parts.push(part)
    else this.#parts = []
  }

  #endLine(): void {
    const [parts, bytes] = [this.#parts, this.#bytes]
    this.#parts = []
    this.#bytes = 0
    if (bytes > this.#largest) {
      const message = `The message has ${bytes} bytes; at most ${this.#largest} are read.`
      return this.#refuse({ code: INVALID_REQUEST, message, id: null })
    }
    const line = Buffer.concat(parts).toString('utf8').trim()
    if (line === '') return
    const refused = refusalOf(line)
    if (refused === null) this.push(`${line}\n`)
    else this.#refuse(refused)
  }
}

function refusalOf(line: string): RefusedLine | null {
  let message: unknown
  try {
    message = JSON.parse(line)
  } catch {
    return { code: PARSE_ERROR, message: 'The line is not JSON.', id: null }
  }
  if (isJSONRPCRequest(message) || isJSONRPCNotification(message) || isJSONRPCResponse(message)) return null
  return { code: INVALID_REQUEST, message: 'The line is not a message of the protocol.', id: idOf(message) }
}

/** The id of a damaged answer is one of this server's: under it, a client would take the refusal for an answer of its own. */
function idOf(message: unknown): string | number | null {
  if (typeof message !== 'object' || message === null || !('id' in message)) return null
  if ('result' in message || 'error' in message) return null
  return typeof message.id === 'string' || typeof message.id === 'number' ? message.id : null
}
