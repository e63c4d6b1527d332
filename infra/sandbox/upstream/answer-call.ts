import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { CallLog } from './call-log.ts'
import type { FaultQueue } from './faults.ts'
import { sendAnswer } from './send-answer.ts'
import { textFields, type VendorAnswer, type VendorRequest, type VendorRoute } from './vendor-route.ts'

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
  const gone = new AbortController()
  // Neither has an effect after an answer: a call ends only once.
  response.once('close', () => {
    log.aborted(call)
    gone.abort()
  })
  const ruleForAny = faults.take(route.path)
  if (ruleForAny?.fault === 'resetBeforeRead') {
    request.socket.resetAndDestroy()
    return
  }
  const body = await buffer(request)
  const rule = ruleForAny ?? faults.take(route.path, body)
  const lacks = rule?.fault === 'emptyText' ? 'output' : rule?.fault === 'noUsage' ? 'usage' : undefined
  const form = await readForm(received.headers, body)
  const json = form === undefined ? readJson(body) : undefined
  const read = {
    ...received,
    ...form,
    form: form?.form,
    audio: form?.audio,
    body,
    json,
    digest: sha256(body),
    signal: gone.signal,
    lacks,
  } as const
  call.fields = { ...(form === undefined ? loggedFields(json) : textFields(form.form)), ...route.describe?.(read) }
  if (read.audio !== undefined)
    Object.assign(call, { audioSha256: sha256(read.audio), audioBytes: read.audio.byteLength })
  const answer: VendorAnswer =
    rule?.fault === 'status'
      ? { status: rule.status, body: rule.body, headers: rule.headers }
      : (route.refuseKey(read.headers, apiKey) ?? (await route.answer(read)))
  // Of answers that a rule dictates, those of 500 and more count as work.
  if (rule?.fault === 'status' ? rule.status >= 500 : answer.status === 200) log.started(call)
  await wait(delayMs + (rule?.delayMs ?? 0))
  if (!response.destroyed) await sendAnswer(response, answer, { rule, log, call })
}

/** Reads a multipart form and its file; undefined when the body is not one, which the route refuses like its vendor. */
async function readForm(headers: Headers, body: Buffer) {
  const contentType = headers.get('content-type')
  if (!contentType?.startsWith('multipart/form-data')) return undefined
  const form = await new Response(body, { headers: { 'content-type': contentType } }).formData().catch(() => undefined)
  const file = form?.get('file')
  return form && { form, audio: file instanceof Blob ? await file.bytes() : undefined }
}

function readJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return undefined
  }
}

/**
 * Returns the top-level fields of a JSON request, each as JSON text. A long Base64 string is replaced by its length and
 * SHA-256 and that of a data URI is left out, so that a log of many images stays readable.
 */
function loggedFields(request: unknown): Record<string, string> {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) return {}
  return Object.fromEntries(
    Object.entries(request).map(([name, value]) => [
      name,
      JSON.stringify(value, (_, part: unknown) => shortened(part)).replaceAll(LONG_DATA_URI, ';base64,…'),
    ]),
  )
}

const LONG_DATA_URI = /;base64,[A-Za-z0-9+/]{200,}=*/g

function shortened(value: unknown): unknown {
  if (typeof value !== 'string' || value.length < 512 || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return value
  return `(${value.length} Base64 characters, SHA-256 ${sha256(value)})`
}

function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
