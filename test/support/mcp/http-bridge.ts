import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'

interface Message {
  readonly id?: string | number
  readonly method?: string
}

/** A process that speaks over standard input and output, with those who wait for its answers. */
interface Session {
  readonly child: ChildProcess
  readonly waiting: Map<string | number, (line: string) => void>
}

export interface HttpBridge {
  readonly url: string
  /** Lines that answered no request. */
  readonly unasked: readonly string[]
  stop(): Promise<void>
}

/**
 * Serves a stdio server over HTTP, a process for each session, for checkers that only know HTTP. It passes messages on as
 * they are and adds none.
 */
export async function startHttpBridge(
  [command, args]: readonly [string, readonly string[]],
  env: Readonly<Record<string, string>>,
): Promise<HttpBridge> {
  const sessions = new Map<string, Session>()
  const unasked: string[] = []

  const open = (): string => {
    const child = spawn(command, [...args], { env: { ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
    const waiting: Session['waiting'] = new Map()
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { id } = JSON.parse(line) as Message
      const answer = id === undefined ? undefined : waiting.get(id)
      if (id === undefined || answer === undefined) return unasked.push(line)
      waiting.delete(id)
      answer(line)
    })
    const session = randomUUID()
    sessions.set(session, { child, waiting })
    return session
  }

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== 'POST') return response.writeHead(405).end()
    const body = Buffer.concat(await request.toArray()).toString('utf8')
    const { id, method } = JSON.parse(body) as Message
    const name = method === 'initialize' ? open() : String(request.headers['mcp-session-id'])
    const session = sessions.get(name)
    if (session === undefined) return response.writeHead(404).end()
    const answered = new Promise<string>((resolve) => {
      if (id === undefined || method === undefined) resolve('')
      else session.waiting.set(id, resolve)
    })
    session.child.stdin?.write(`${JSON.stringify(JSON.parse(body))}\n`)
    const line = await answered
    if (line === '') return response.writeHead(202).end()
    return response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': name }).end(line)
  }

  const server = createServer((request, response) => void handle(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    unasked,
    stop: async () => {
      server.close()
      server.closeAllConnections()
      for (const { child } of sessions.values()) {
        child.stdin?.end()
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      }
    },
  }
}
