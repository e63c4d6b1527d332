import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { COMPILE_CACHE } from '../processes/run-program.ts'

const MAIN = fileURLToPath(new URL('../../../client/command/main.ts', import.meta.url))
/** A revision of the protocol that begins with `initialize`. */
const PROTOCOL_VERSION = '2025-06-18'

export interface Content {
  readonly type: string
  readonly text?: string
  readonly uri?: string
  readonly name?: string
  readonly _meta?: Readonly<Record<string, unknown>>
}

export interface ToolError {
  readonly code: string
  readonly message: string
  readonly advice?: string
  readonly money: string
}

export interface ToolAnswer {
  readonly isError?: boolean
  readonly content: readonly Content[]
  readonly structuredContent?: Readonly<Record<string, unknown>> & { readonly error?: ToolError }
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** A message of the server. */
export interface Message {
  readonly jsonrpc: string
  readonly id?: number | string | null
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

export interface McpProcessOptions {
  readonly environment: Readonly<Record<string, string>>
  readonly args?: readonly string[]
  /** A module to load before the program. */
  readonly preload?: string
  /** How the person answers a question; without it the client says that it cannot ask one. */
  readonly elicit?: (params: Readonly<Record<string, unknown>>) => object
}

/** `farebox mcp` as a process, with a client that may send anything. */
export interface McpProcess {
  readonly pid: number
  /** Everything on stdout, by lines. */
  readonly lines: readonly string[]
  /** Everything on stderr. */
  errors(): string
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  /** Writes bytes to stdin as they are. */
  write(bytes: string | Uint8Array): void
  /** Resolves with the answer to the next request of this method; rejects when the process ends before. */
  request(method: string, params?: object): Promise<Message>
  /** Calls a tool. Throws when the answer is an error of the protocol. */
  call(name: string, args: object, meta?: object): Promise<ToolAnswer>
  /** Greets the server in the older era of the protocol. */
  initialize(): Promise<Message>
  /** Ends stdin, as a client that leaves. */
  leave(): void
  kill(): void
}

/** Starts `farebox mcp` from its sources. Of this process's environment it gets only PATH. */
export function startMcpProcess({ environment, args = [], preload, elicit }: McpProcessOptions): McpProcess {
  const loaded = preload === undefined ? [] : ['--import', preload]
  const child = spawn(process.execPath, [...loaded, MAIN, 'mcp', ...args], {
    env: { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: COMPILE_CACHE, ...environment },
    stdio: 'pipe',
  })
  const waiting = new Map<number | string, PromiseWithResolvers<Message>>()
  const lines: string[] = []
  let [errors, rest, sent] = ['', '', 0]
  let end: Error | undefined
  const write = (bytes: string | Uint8Array) => void child.stdin.write(bytes)
  const send = (message: object) => write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const take = (line: string) => {
    lines.push(line)
    const message = messageIn(line)
    if (message?.method === 'elicitation/create' && elicit !== undefined)
      send({ id: message.id, result: elicit(message.params ?? {}) })
    else if (message?.method === undefined && message?.id !== undefined && message.id !== null) {
      waiting.get(message.id)?.resolve(message)
      waiting.delete(message.id)
    }
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const complete = (rest + text).split('\n')
    rest = complete.pop() ?? ''
    for (const line of complete) take(line)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  // The program may end before it has read everything.
  child.stdin.on('error', () => undefined)
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      end = new Error(`the server ended: ${code} ${signal} ${errors}`)
      for (const { reject: fail } of waiting.values()) fail(end)
      resolve({ code, signal })
    })
  })
  const request: McpProcess['request'] = (method, params) => {
    const id = ++sent
    const answer = Promise.withResolvers<Message>()
    // A killed process answers nothing, and the caller may no longer wait for it.
    answer.promise.catch(() => undefined)
    waiting.set(id, answer)
    if (end !== undefined) answer.reject(end)
    send({ id, method, ...(params === undefined ? {} : { params }) })
    return answer.promise
  }
  return {
    pid: child.pid ?? 0,
    lines,
    errors: () => errors,
    ended,
    write,
    request,
    call: async (name, args_, meta) =>
      toolAnswer(
        await request('tools/call', { name, arguments: args_, ...(meta === undefined ? {} : { _meta: meta }) }),
      ),
    initialize: async () => {
      const capabilities = elicit === undefined ? {} : { elicitation: {} }
      const clientInfo = { name: 'attacker', version: '1' }
      const answer = await request('initialize', { protocolVersion: PROTOCOL_VERSION, capabilities, clientInfo })
      send({ method: 'notifications/initialized' })
      return answer
    },
    leave: () => void child.stdin.end(),
    kill: () => void child.kill('SIGKILL'),
  }
}

/** Returns what a tool answered; throws for an error of the protocol. */
export function toolAnswer({ result, error }: Message): ToolAnswer {
  if (error !== undefined) throw new Error(`${error.code} ${error.message}`)
  return result as ToolAnswer
}

/** Returns the message on a line, or undefined for a line that is none. */
export function messageIn(line: string): Message | undefined {
  try {
    const message: unknown = JSON.parse(line)
    return typeof message === 'object' && message !== null && 'jsonrpc' in message ? (message as Message) : undefined
  } catch {
    return undefined
  }
}
