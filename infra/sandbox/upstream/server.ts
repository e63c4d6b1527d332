import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json as readJson } from 'node:stream/consumers'
import { answerCall } from './answer-call.ts'
import { createMessagesRoute } from './anthropic/messages.ts'
import { modelRoute as anthropicModel } from './anthropic/models.ts'
import { type CallLog, createCallLog } from './call-log.ts'
import { createSpeechToTextRoute } from './elevenlabs/speech-to-text.ts'
import {
  createTextToSpeechRoute,
  modelsRoute as elevenLabsModels,
  voicesRoute as elevenLabsVoices,
} from './elevenlabs/text-to-speech.ts'
import { createFaultQueue, type FaultQueue, type FaultRuleInput } from './faults.ts'
import { createGenerateContentRoutes } from './gemini/generate-content.ts'
import { modelRoutes as geminiModels } from './gemini/models.ts'
import type { Ear } from './hearing/hear.ts'
import { createChatCompletionsRoute } from './openai/chat-completions.ts'
import { imagesRoute } from './openai/images.ts'
import { modelRoutes as openAiModels } from './openai/models.ts'
import { createSpeechRoute } from './openai/speech.ts'
import { createTranscriptionsRoute } from './openai/transcriptions.ts'
import { speakMp3 } from './speaking/speak-mp3.ts'
import type { Speak } from './speaking/speak.ts'
import { type ListingRoute, matchPath, type VendorRoute } from './vendor-route.ts'

export interface UpstreamOptions {
  /** Default 0: any free port. */
  readonly port?: number
  /** The only accepted key; without it, every key is accepted. */
  readonly apiKey?: string | undefined
  /** Delay of every answer; default 0. */
  readonly delayMs?: number
  /** File that receives the call log as JSON lines. */
  readonly callLogPath?: string | undefined
  /** What recordings are heard with; by default only their scripts are read. */
  readonly ear?: Ear
  /** What texts are spoken with; by default silence. */
  readonly speak?: Speak
}

export type Upstream = Awaited<ReturnType<typeof startUpstream>>

/** The lists of all vendors; OpenAI's are the last, since its requests have no header of their own. */
const LISTINGS: readonly ListingRoute[] = [
  elevenLabsModels,
  elevenLabsVoices,
  anthropicModel,
  ...geminiModels,
  ...openAiModels,
]

/** Starts the simulated vendors on one HTTP server. Rejects when the port is in use. */
export async function startUpstream(options: UpstreamOptions = {}) {
  const { port = 0, apiKey, delayMs = 0, callLogPath, ear = {}, speak = async (speech) => speakMp3(speech) } = options
  const routes: readonly VendorRoute[] = [
    createSpeechToTextRoute(ear),
    createTextToSpeechRoute(speak),
    createChatCompletionsRoute(),
    imagesRoute,
    createSpeechRoute(speak),
    createTranscriptionsRoute(ear),
    ...createGenerateContentRoutes(),
    createMessagesRoute(),
  ]
  const faults = createFaultQueue()
  const log = createCallLog({ now: () => new Date(), path: callLogPath })

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://upstream')
    if (pathname.startsWith('/_simulator/')) return answerControl({ faults, log }, pathname, request, response)
    const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
    const listing = request.method === 'GET' ? find(LISTINGS, pathname, headers) : undefined
    if (listing !== undefined) {
      const { route, parameter } = listing
      const { status, body } = route.refuseKey(headers, apiKey) ?? route.answer({ query, parameter })
      return json(response, status, body)
    }
    const called = request.method === 'POST' ? find(routes, pathname, headers) : undefined
    if (called === undefined) return json(response, 404, { detail: 'Not Found' })
    await answerCall({ log, faults, delayMs, apiKey }, { ...called, headers, query, request, response })
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
    server.once('error', reject).listen(port, '127.0.0.1', resolve)
  })
  const address = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    /** Every call since the start or the last `clearCalls`, in order of arrival. */
    calls: log.calls,
    setFaults: (rules: readonly FaultRuleInput[]) => faults.replace(rules),
    clearCalls: () => log.clear(),
    /** Aborts open calls and releases the port. */
    stop: () =>
      new Promise<void>((resolve) => {
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
 * Answers are `{"rules": […]}` and `{"calls": […]}`; 400 for rules that are not valid.
 */
async function answerControl(
  { faults, log }: { faults: FaultQueue; log: CallLog },
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (path.endsWith('/calls')) {
    if (request.method === 'DELETE') log.clear()
    return json(response, 200, { calls: log.calls })
  }
  try {
    if (request.method !== 'GET') faults.replace(request.method === 'PUT' ? await readJson(request) : [])
    json(response, 200, { rules: faults.rules })
  } catch (error) {
    json(response, 400, { error: String(error) })
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function find<Found extends VendorRoute | ListingRoute>(routes: readonly Found[], path: string, headers: Headers) {
  for (const route of routes) {
    const parameter = matchPath(route, path)
    if (parameter !== undefined && (route.header === undefined || headers.has(route.header)))
      return { route, parameter }
  }
  return undefined
}
