import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** Starts a server whose `POST /v1/audio/speech` answers with given bytes, and which keeps what it was asked. */
export async function startSpeechServer() {
  let audio: Uint8Array = new Uint8Array()
  const requests: unknown[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    requests.push(await json(request))
    response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(audio)
  }
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: requests as readonly unknown[],
    answer: (bytes: Uint8Array) => {
      audio = bytes
    },
    stop: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  }
}
