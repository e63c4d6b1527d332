import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { rarely } from './rarely.ts'

/** How long an answer may take before its server is named. */
const PATIENCE_MS = 2000

/** Where Node and undici say that a request begins, and that its answer begins or never will: the message and its field. */
const BEGINNINGS = ['undici:request:create', 'http.client.request.start']
const ENDS = [
  'undici:request:headers',
  'undici:request:error',
  'http.client.response.finish',
  'http.client.request.error',
]

/**
 * Names each server that does not answer an HTTP request for seconds, whoever sent it: `onWait` receives a clause. Returns a
 * function that ends it. For starts and commands, where a person waits and sees nothing else.
 */
export function watchRequests(onWait: (clause: string) => void): () => void {
  const waiting = new Map<object, NodeJS.Timeout>()
  const say = rarely<{ origin: string; since: Date }>(
    ({ origin, since }) => onWait(`waiting since ${since.toISOString()} for ${origin}, which does not answer`),
    ({ origin }) => origin,
  )
  const begin = (message: unknown) => {
    const request = requestOf(message)
    const since = new Date()
    const name = () => say({ origin: originOf(request), since })
    if (!waiting.has(request)) waiting.set(request, setTimeout(name, PATIENCE_MS).unref())
  }
  const end = (message: unknown) => {
    clearTimeout(waiting.get(requestOf(message)))
    waiting.delete(requestOf(message))
  }
  for (const name of BEGINNINGS) subscribe(name, begin)
  for (const name of ENDS) subscribe(name, end)
  return () => {
    for (const name of BEGINNINGS) unsubscribe(name, begin)
    for (const name of ENDS) unsubscribe(name, end)
    for (const timer of waiting.values()) clearTimeout(timer)
  }
}

interface Request {
  /** Of undici. */
  readonly origin?: string | URL
  /** Of Node. */
  readonly protocol?: string
  getHeader?(name: string): unknown
}

function requestOf(message: unknown): Request {
  return (message as { request: Request }).request
}

/** Returns the address without its path, which may contain a key. */
function originOf(request: Request): string {
  if (request.origin !== undefined) return new URL(request.origin).origin
  return `${request.protocol}//${String(request.getHeader?.('host'))}`
}
