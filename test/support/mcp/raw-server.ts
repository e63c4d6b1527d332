import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type ServerSettings, serverCommand, serverEnvironment } from './local-server.ts'

/** An answer of JSON-RPC, or a notification. */
export interface Reply {
  readonly id?: string | number | null
  readonly method?: string
  readonly result?: Record<string, unknown>
  readonly error?: { readonly code: number; readonly message: string }
}

/** A server whose lines a test writes and reads itself. */
export interface RawServer {
  readonly child: ChildProcessWithoutNullStreams
  readonly send: (line: string) => void
  readonly request: (id: number, method: string, params?: object) => void
  /** Returns the next line. */
  readonly reply: () => Promise<Reply>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly errors: () => string
}

/** Starts `farebox mcp` and opens a connection of the 2025 protocol. */
export async function startRawServer(settings: ServerSettings): Promise<RawServer> {
  const [command, args] = serverCommand()
  const child = spawn(command, args, { env: serverEnvironment(settings), stdio: 'pipe' })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const replies = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const send = (line: string) => void child.stdin.write(`${line}\n`)
  const request = (id: number, method: string, params: object = {}) =>
    send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
  const reply = async () => {
    const { value, done } = await replies.next()
    if (done === true) throw new Error(`the server has ended: ${errors}`)
    return JSON.parse(value) as Reply
  }
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }))
  const clientInfo = { name: 'test', version: '1' }
  request(0, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo })
  await reply()
  return { child, send, request, reply, ended, errors: () => errors }
}
