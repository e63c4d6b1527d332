import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json as readJson } from 'node:stream/consumers'
import { z } from 'zod'
import { answerCall } from './answer-call.ts'
import { createMessagesRoute } from './anthropic/messages.ts'
import { modelRoute as anthropicModel } from './anthropic/models.ts'
import { type CallLog, createCallLog } from './call-log.ts'
import { speechToTextRoute } from './elevenlabs/speech-to-text.ts'
import {
  modelsRoute as elevenLabsModels,
  voicesRoute as elevenLabsVoices,
  textToSpeechRoute,
} from './elevenlabs/text-to-speech.ts'
import { createFaultQueue, type FaultQueue, type FaultRuleInput } from './faults.ts'
import { createGenerateContentRoutes } from './gemini/generate-content.ts'
import { modelRoutes as geminiModels } from './gemini/models.ts'
import { createChatCompletionsRoute } from './openai/chat-completions.ts'
import { imagesRoute } from './openai/images.ts'
import { modelRoutes as openAiModels } from './openai/models.ts'
import { speechRoute } from './openai/speech.ts'
import { transcriptionsRoute } from './openai/transcriptions.ts'
import { type ListingRoute, matchPath, type VendorRoute } from './vendor-route.ts'

export interface UpstreamOptions {
  /** Default 0: any free port. */
  readonly port?: number
  readonly host?: string
  /** The only accepted key; without it, every key is accepted. */
  readonly apiKey?: string | undefined
  /** Delay of every answer; default 0. */
  readonly delayMs?: number
  /** File that receives the call log as JSON lines. */
  readonly callLogPath?: string | undefined
}

export type Upstream = Awaited<ReturnType<typeof startUpstream>>

/** Starts the simulated vendors on one HTTP server. Rejects when the port is in use. */
export async function startUpstream(options: UpstreamOptions = {}) {
  const { port = 0, host = '127.0.0.1', apiKey, delayMs = 0, callLogPath } = options
  const routes: readonly VendorRoute[] = [
    speechToTextRoute,
    textToSpeechRoute,
    createChatCompletionsRoute(),
    imagesRoute,
    speechRoute,
    transcriptionsRoute,
    ...createGenerateContentRoutes(),
    createMessagesRoute(),
  ]
  const faults = createFaultQueue()
  const log = createCallLog({ now: () => new Date(), path: callLogPath })

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? '/', 'http://upstream')
    if (url.pathname.startsWith('/_simulator/')) return answerControl({ faults, log }, url.pathname, request, response)
    const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
    const received = { headers, query: url.searchParams }
    const listing = request.method === 'GET' ? find(LISTINGS, url, headers) : undefined
    if (listing !== undefined) {
      const { route, parameter } = listing
      const { status, body } = route.refuseKey(headers, apiKey) ?? route.answer({ ...received, parameter })
      return json(response, status, body)
    }
    const called = request.method === 'POST' ? find(routes, url, headers) : undefined
    if (called === undefined) return json(response, 404, { detail: 'Not Found' })
    await answerCall({ log, faults, delayMs, apiKey }, { ...called, ...received, request, response })
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
  try {
    faults.replace(await readJson(request))
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

/** The lists of all vendors; OpenAI's are the last, since its requests have no header of their own. */
const LISTINGS: readonly ListingRoute[] = [
  elevenLabsModels,
  elevenLabsVoices,
  anthropicModel,
  ...geminiModels,
  ...openAiModels,
]

function find<Found extends VendorRoute | ListingRoute>(routes: readonly Found[], { pathname }: URL, headers: Headers) {
  for (const route of routes) {
    const parameter = matchPath(route, pathname)
    if (parameter !== undefined && route.accepts?.(headers) !== false) return { route, parameter }
  }
  return undefined
}
