import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { CallLog, UpstreamCall } from './call-log.ts'
import type { FaultRule } from './faults.ts'
import { padded, sendPieces, split } from './send-answer.ts'
import { sendStream } from './send-stream.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from './vendor-route.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

export interface CallDependencies {
  readonly log: CallLog
  readonly delayMs: number
}

/** Answers one call to a vendor route, applying the fault rule, and logs its outcome. */
export async function answerCall(
  { log, delayMs }: CallDependencies,
  {
    route,
    takeRule,
    request,
    response,
  }: {
    route: VendorRoute
    /** Takes the rule for any body or, given one, the rule for this body. */
    takeRule: (body?: Buffer) => FaultRule | undefined
    request: IncomingMessage
    response: ServerResponse
  },
): Promise<void> {
  const call = log.arrived(route.method, route.path)
  // Has no effect after an answer: a call ends only once.
  response.once('close', () => log.aborted(call))
  const ruleForAny = takeRule()
  if (ruleForAny?.fault === 'resetBeforeRead') {
    request.socket.resetAndDestroy()
    return
  }
  const read = await readRequest(request)
  const rule = ruleForAny ?? takeRule(asBuffer(read.body))
  await describe(call, route, read)
  const answer: VendorAnswer =
    rule?.fault === 'status'
      ? { status: rule.status, accepted: rule.status >= 500, body: rule.body }
      : await route.answer(read)
  if (answer.accepted) log.started(call)
  await wait(delayMs + (rule?.delayMs ?? 0))
  if (!response.destroyed) await send({ log, call, route, rule, response, answer })
}

/** Faults that are the same for a streamed answer as for a whole one. */
const FAULTS_OF_ANY_ANSWER: ReadonlySet<FaultRule['fault'] | undefined> = new Set([
  'hang',
  'resetAfterRead',
  'hugeBody',
  'status',
])

interface Sending {
  readonly log: CallLog
  readonly call: UpstreamCall
  readonly route: VendorRoute
  readonly rule: FaultRule | undefined
  readonly response: ServerResponse
  readonly answer: VendorAnswer
}

async function send({ log, call, route, rule, response, answer }: Sending): Promise<void> {
  const body = bytesOf(answer.body)
  const answerHeaders = { ...JSON_HEADERS, ...answer.headers }
  const onLast = () => log.answered(call, answer.status)
  const whole = (bytes: Buffer, headers: Record<string, string> = {}) =>
    sendPieces(response, answer.status, { ...answerHeaders, ...headers }, [bytes], { onLast })
  if (answer.stream !== undefined && !FAULTS_OF_ANY_ANSWER.has(rule?.fault)) {
    const { body: written } = rule?.fault === 'emptyText' ? route.emptied(answer) : answer
    const events = answer.stream(written, { reportsUsage: rule?.fault !== 'noUsage' })
    if (rule?.fault === 'resetMidBody') call.status = answer.status
    return sendStream(response, answer.headers ?? {}, events, { rule, onLast })
  }
  switch (rule?.fault) {
    case 'hang':
      return
    case 'resetAfterRead':
      response.socket?.resetAndDestroy()
      return
    case 'resetMidBody':
      call.status = answer.status
      response.writeHead(answer.status, { ...answerHeaders, 'content-length': String(body.length) })
      response.write(body.subarray(0, body.length / 2), () => response.socket?.resetAndDestroy())
      return
    case 'truncatedJson':
      return whole(body.subarray(0, body.length / 2))
    case 'emptyText':
      return whole(bytesOf(route.emptied(answer).body))
    case 'hugeBody':
      return sendPieces(response, answer.status, answerHeaders, padded(rule.bytes), { onLast })
    case 'slowBody':
      return sendPieces(response, answer.status, answerHeaders, split(body, rule.pieces), {
        everyMs: rule.everyMs,
        onLast,
      })
    case 'status':
      return whole(body, rule.headers)
    case 'resetBeforeRead':
    case 'midStream':
    case 'noUsage':
    case 'none':
    case undefined:
      return whole(body)
  }
}

async function readRequest(request: IncomingMessage): Promise<VendorRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks)
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) headers.set(name, String(value))
  const url = new URL(request.url ?? '/', 'http://upstream')
  return { url, headers, body, form: await readForm(headers, body) }
}

/** Returns a view of the same memory. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

function bytesOf(body: unknown): Buffer {
  if (body instanceof Uint8Array) return Buffer.from(body)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
}

/** Reads a multipart form; undefined when the body is not one, which the route refuses like its vendor. */
async function readForm(headers: Headers, body: Buffer<ArrayBuffer>): Promise<FormData | undefined> {
  const contentType = headers.get('content-type')
  if (!contentType?.startsWith('multipart/form-data')) return undefined
  try {
    return await new Response(body, { headers: { 'content-type': contentType } }).formData()
  } catch {
    return undefined
  }
}

async function describe(call: UpstreamCall, route: VendorRoute, read: VendorRequest): Promise<void> {
  const { audio, fields } = await route.describe(read)
  call.fields = fields
  if (audio === undefined) return
  call.audioSha256 = createHash('sha256').update(audio).digest('hex')
  call.audioBytes = audio.byteLength
}
