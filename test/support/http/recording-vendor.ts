import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface RecordingVendor {
  readonly url: string
  /** The bodies that were received, as their text. */
  readonly bodies: string[]
  /** The body of every answer from now on. */
  answerWith(body: string): void
  stop(): Promise<void>
}

/** Starts a server that stands in for any vendor: it records what it receives and answers 200 with the text it was given. */
export async function startRecordingVendor(): Promise<RecordingVendor> {
  const bodies: string[] = []
  let answer = '{}'
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    bodies.push(await text(request))
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer)
  }
  const server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    answerWith: (body) => {
      answer = body
    },
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
