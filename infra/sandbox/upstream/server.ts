import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import { answerCall } from './answer-call.ts'
import { createMessagesRoute } from './anthropic/messages.ts'
import { createModelRoute as createAnthropicModel } from './anthropic/models.ts'
import { type CallLog, createCallLog, type UpstreamCall } from './call-log.ts'
import { createModelsRoute as createElevenLabsModels, createVoicesRoute } from './elevenlabs/models.ts'
import { createSpeechToTextRoute } from './elevenlabs/speech-to-text.ts'
import { createTextToSpeechRoute } from './elevenlabs/text-to-speech.ts'
import { createFaultQueue, type FaultQueue, type FaultRuleInput } from './faults.ts'
import { createGenerateContentRoutes } from './gemini/generate-content.ts'
import { createModelRoutes as createGeminiModels } from './gemini/models.ts'
import { createChatCompletionsRoute } from './openai/chat-completions.ts'
import { createImagesRoute } from './openai/images.ts'
import { createModelRoutes as createOpenAiModels } from './openai/models.ts'
import { createSpeechRoute } from './openai/speech.ts'
import { createTranscriptionsRoute } from './openai/transcriptions.ts'
import { type ListingRoute, matchesPath, type VendorRoute } from './vendor-route.ts'

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
    ...createGenerateContentRoutes({ apiKey }),
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

/**
 * Answers the simulator's control routes, which no vendor has:
 *
 * - `GET /_simulator/faults`, `PUT` with a JSON array of rules (replaces all), `DELETE`
 * - `GET /_simulator/calls`, `DELETE` (deletes them in memory; the file stays)
 *
 * Answers are `{"rules": […]}` and `{"calls": […]}`; 400 for an invalid rule, 404 and 405 otherwise.
 */
async function answerControl(
  { faults, log }: { faults: FaultQueue; log: CallLog },
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method } = request
  if (path === '/_simulator/calls' && (method === 'GET' || method === 'DELETE')) {
    if (method === 'DELETE') log.clear()
    return json(response, 200, { calls: log.calls })
  }
  if (path !== '/_simulator/faults') return json(response, path === '/_simulator/calls' ? 405 : 404, {})
  if (method === 'PUT') {
    const refusal = await replaceRules(faults, request)
    if (refusal !== undefined) return json(response, 400, { error: refusal })
  } else if (method === 'DELETE') {
    faults.replace([])
  } else if (method !== 'GET') {
    return json(response, 405, {})
  }
  return json(response, 200, { rules: faults.rules })
}

async function replaceRules(faults: FaultQueue, request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  try {
    faults.replace(JSON.parse(Buffer.concat(chunks).toString('utf8')))
    return undefined
  } catch (error) {
    if (error instanceof z.ZodError) return z.prettifyError(error)
    if (error instanceof SyntaxError) return 'The body is not JSON.'
    throw error
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Creates the lists of all vendors; OpenAI's is the last, since its requests have no header of their own. */
function createListings(options: { apiKey: string | undefined }): readonly ListingRoute[] {
  return [
    createElevenLabsModels(options),
    createVoicesRoute(options),
    createAnthropicModel(options),
    ...createGeminiModels(options),
    ...createOpenAiModels(options),
  ]
}

function findListing(
  listings: readonly ListingRoute[],
  request: IncomingMessage,
  path: string,
): ListingRoute | undefined {
  if (request.method !== 'GET') return undefined
  const headers = headersOf(request)
  return listings.find((listing) => matchesPath(listing, path) && listing.accepts?.(headers) !== false)
}

function answerListing(listing: ListingRoute, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://upstream')
  const { status, body } = listing.answer({ url, headers: headersOf(request) })
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function headersOf(request: IncomingMessage): Headers {
  return new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
}
