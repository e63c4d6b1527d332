import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { CallLog, UpstreamCall } from './call-log.ts'
import type { FaultQueue, FaultRule } from './faults.ts'
import { padded, sendPieces, sendStream, split } from './send-answer.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from './vendor-route.ts'
import { loggedFields } from './writing/json-request.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

interface CallDependencies {
  readonly log: CallLog
  readonly faults: FaultQueue
  readonly delayMs: number
  readonly apiKey: string | undefined
}

interface ArrivedCall extends Pick<VendorRequest, 'query' | 'parameter' | 'headers'> {
  readonly route: VendorRoute
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** Answers one call to a vendor route, applying the fault rule, and logs its outcome. */
export async function answerCall(
  { log, faults, delayMs, apiKey }: CallDependencies,
  { route, request, response, ...received }: ArrivedCall,
): Promise<void> {
  const call = log.arrived(route.path)
  // Has no effect after an answer: a call ends only once.
  response.once('close', () => log.aborted(call))
  const ruleForAny = faults.take(route.path)
  if (ruleForAny?.fault === 'resetBeforeRead') {
    request.socket.resetAndDestroy()
    return
  }
  const body = await buffer(request)
  const read = { ...received, body, ...(await readForm(received.headers, body)) }
  const rule = ruleForAny ?? faults.take(route.path, body)
  describe(call, route, read)
  const answer: VendorAnswer =
    rule?.fault === 'status'
      ? { status: rule.status, accepted: rule.status >= 500, body: rule.body }
      : (route.refuseKey(read.headers, apiKey) ?? (await route.answer(read)))
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
  const emptied = () => route.emptied(answer.body as object)
  const onLast = () => log.answered(call, answer.status)
  const whole = (bytes: Buffer, headers: Record<string, string> = {}) =>
    sendPieces(response, answer.status, { ...answerHeaders, ...headers }, [bytes], { onLast })
  if (answer.stream !== undefined && !FAULTS_OF_ANY_ANSWER.has(rule?.fault)) {
    const written = rule?.fault === 'emptyText' ? emptied() : answer.body
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
      return whole(bytesOf(emptied()))
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

function bytesOf(body: unknown): Buffer {
  if (body instanceof Uint8Array) return Buffer.from(body)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
}

/** Reads a multipart form and its file; nothing when the body is not one, which the route refuses like its vendor. */
async function readForm(headers: Headers, body: Buffer): Promise<Pick<VendorRequest, 'form' | 'audio'>> {
  const contentType = headers.get('content-type')
  if (!contentType?.startsWith('multipart/form-data')) return { form: undefined, audio: undefined }
  try {
    const form = await new Response(body, { headers: { 'content-type': contentType } }).formData()
    const file = form.get('file')
    return { form, audio: file instanceof Blob ? await file.bytes() : undefined }
  } catch {
    return { form: undefined, audio: undefined }
  }
}

function describe(call: UpstreamCall, route: VendorRoute, read: VendorRequest): void {
  const { form, audio, body } = read
  call.fields = route.describe?.(read) ?? (form === undefined ? loggedFields(body) : textFields(form))
  if (audio === undefined) return
  call.audioSha256 = createHash('sha256').update(audio).digest('hex')
  call.audioBytes = audio.byteLength
}

function textFields(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])))
}
