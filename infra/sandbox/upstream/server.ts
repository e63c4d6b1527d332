import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerCall } from './answer-call.ts'
import { createMessagesRoute } from './anthropic/messages.ts'
import { createCallLog, type UpstreamCall } from './call-log.ts'
import { answerControl } from './control-routes.ts'
import { createSpeechToTextRoute } from './elevenlabs/speech-to-text.ts'
import { createTextToSpeechRoute } from './elevenlabs/text-to-speech.ts'
import { createFaultQueue, type FaultRuleInput } from './faults.ts'
import { createGenerateContentRoute, createStreamGenerateContentRoute } from './gemini/generate-content.ts'
import { answerListing, createListings, findListing } from './listings.ts'
import { createChatCompletionsRoute } from './openai/chat-completions.ts'
import { createImagesRoute } from './openai/images.ts'
import { createSpeechRoute } from './openai/speech.ts'
import { createTranscriptionsRoute } from './openai/transcriptions.ts'
import { matchesPath, type VendorRoute } from './vendor-route.ts'

export interface UpstreamOptions {
  /** Default 0: any free port. */
  readonly port?: number
  readonly host?: string
  /** The only accepted key; without it, every key is accepted. */
  readonly apiKey?: string
  /** Delay of every answer; default 0. */
  readonly delayMs?: number
  /** File that receives the call log as JSON lines. */
  readonly callLogPath?: string
}

export interface Upstream {
  readonly url: string
  readonly port: number
  /** Every call since the start or the last `clearCalls`, in order of arrival. */
  readonly calls: readonly UpstreamCall[]
  setFaults(rules: readonly FaultRuleInput[]): void
  clearCalls(): void
  /** Aborts open calls and releases the port. */
  stop(): Promise<void>
}

/** Starts the simulated vendors on one HTTP server. Rejects when the port is in use. */
export async function startUpstream(options: UpstreamOptions = {}): Promise<Upstream> {
  const { port = 0, host = '127.0.0.1', apiKey, delayMs = 0, callLogPath } = options
  const routes: readonly VendorRoute[] = [
    createSpeechToTextRoute({ apiKey }),
    createTextToSpeechRoute({ apiKey }),
    createChatCompletionsRoute({ apiKey }),
    createImagesRoute({ apiKey }),
    createSpeechRoute({ apiKey }),
    createTranscriptionsRoute({ apiKey }),
    createGenerateContentRoute({ apiKey }),
    createStreamGenerateContentRoute({ apiKey }),
    createMessagesRoute({ apiKey }),
  ]
  const listings = createListings({ apiKey })
  const faults = createFaultQueue()
  const log = createCallLog({
    now: () => new Date(),
    ...(callLogPath === undefined ? {} : { path: callLogPath }),
  })

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = new URL(request.url ?? '/', 'http://upstream').pathname
    if (path.startsWith('/_simulator/')) return answerControl({ faults, log }, path, request, response)
    const listing = findListing(listings, request, path)
    if (listing !== undefined) return answerListing(listing, request, response)
    const route = routes.find((candidate) => candidate.method === request.method && matchesPath(candidate, path))
    if (route !== undefined) {
      const takeRule = (body?: Buffer) => faults.take(route.path, body)
      return answerCall({ log, delayMs }, { route, takeRule, request, response })
    }
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}')
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      // A client that disconnects ends only its call; any other error is a defect of the simulator.
      if (!response.destroyed) console.error(error)
      response.destroy()
    })
  })
  // With Node's 5 s, a client on a busy machine may send on a connection that is just being closed.
  server.keepAliveTimeout = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  const address = server.address() as AddressInfo
  return {
    url: `http://${host}:${address.port}`,
    port: address.port,
    calls: log.calls,
    setFaults: (rules) => faults.replace(rules),
    clearCalls: () => log.clear(),
    stop: () =>
      new Promise((resolve) => {
        log.abortOpen()
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
