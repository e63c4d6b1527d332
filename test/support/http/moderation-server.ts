import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request to a moderation endpoint. */
export interface ModerationCall {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: { readonly input?: readonly string[]; readonly model?: string }
}

/** A moderation endpoint on loopback whose answers the test decides. */
export interface ModerationServer {
  readonly baseUrl: string
  readonly calls: ModerationCall[]
  answerWith(answer: (call: ModerationCall, response: ServerResponse) => void): void
  stop(): Promise<void>
}

export async function startModerationServer(): Promise<ModerationServer> {
  const calls: ModerationCall[] = []
  let answer: (call: ModerationCall, response: ServerResponse) => void = verdicts()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ModerationCall['body']
      const call = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body }
      calls.push(call)
      answer(call, response)
    })
  })
  // A keep-alive connection that is closed while it is being reused would be a fault that no test asked for.
  server.keepAliveTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    calls,
    answerWith: (next) => {
      answer = next
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Answers with one verdict for each text, as OpenAI documents them; `flags` returns the categories of a text. */
export function verdicts(flags: (text: string) => readonly string[] = () => []) {
  return ({ body: { input = [] } }: ModerationCall, response: ServerResponse): void => {
    const results = input.map((text) => {
      const named = flags(text)
      const categories = { violence: false, hate: false, ...Object.fromEntries(named.map((name) => [name, true])) }
      return { flagged: named.length > 0, categories, category_scores: { violence: 0.1, hate: 0.1 } }
    })
    sendJson(response, { id: 'modr-1', model: 'omni-moderation', results })
  }
}

export function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
