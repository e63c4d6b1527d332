import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../support/http/multipart-body.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { startMeasuredSandbox } from './observed-api/observation.ts'
import { writeResults } from './report/write-results.ts'

/** The longest time for which one caller's upload may delay others. */
const LONGEST_BLOCK_MS = 50
const LARGEST_AUDIO_BYTES = 26_214_400
const INLINE_IMAGE_BYTES = 28_000_000
const PROBE_EVERY_MS = 5
const ROUNDS = 3

interface Upload {
  readonly name: string
  readonly path: string
  readonly contentType: string
  readonly body: Uint8Array<ArrayBuffer>
  /** The tool whose arguments `body` has; the request is sent to `/mcp` then. */
  readonly tool?: string
}

interface Measurement {
  readonly upload: string
  readonly kind: 'unpaid' | 'signed' | 'replay'
  readonly status: number
  readonly milliseconds: number
  readonly longestBlockMs: number
  readonly longestBusyMs: number
  readonly slowestProbeMs: number
}

/**
 * Measures how long the largest bodies block the API's event loop and how long `/healthz` takes in the meantime: 25 MiB of
 * audio in both forms, and inline images that fill a chat request, both as tool calls too; unpaid, signed and replayed.
 */
const sandbox = await startMeasuredSandbox()
try {
  const measurements: Measurement[] = []
  for (const upload of [smallRequest(), ...uploads()]) {
    for (let round = 0; round < ROUNDS; round++) measurements.push(...(await measure(upload)))
  }
  console.table(measurements.map(({ upload, kind, ...figures }) => ({ upload, kind, ...rounded(figures) })))
  const longestBusyMs = Math.max(...measurements.map((measurement) => measurement.longestBusyMs))
  const longestBlockMs = Math.max(...measurements.map((measurement) => measurement.longestBlockMs))
  console.log(`longest block: ${longestBlockMs.toFixed(0)} ms; longest computation: ${longestBusyMs.toFixed(0)} ms`)
  console.log(`target: at most ${LONGEST_BLOCK_MS} ms; on a busy machine, blocks include pauses of the process`)
  await writeResults('loop-delay', { longestBlockMs, longestBusyMs, targetMs: LONGEST_BLOCK_MS, measurements })
} finally {
  await sandbox.stop()
}

function rounded(figures: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, Math.round(value)]))
}

function uploads(): Upload[] {
  const audio = generateMp3({ durationMs: 1_630_000 }).subarray(0, LARGEST_AUDIO_BYTES)
  const transcription = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
  const file = { name: 'file', value: audio, fileName: 'speech.mp3', contentType: 'audio/mpeg' }
  const content = [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${largeImage().toString('base64')}` } },
  ]
  const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content }] }
  return [
    json('audio, JSON', '/v1/audio/transcriptions', transcription),
    { ...json('audio, tool', '/mcp', transcription), tool: 'transcribe' },
    { ...json('inline image, tool', '/mcp', chat), tool: 'chat' },
    {
      name: 'audio, form',
      path: '/v1/audio/transcriptions',
      contentType: MULTIPART_CONTENT_TYPE,
      body: new Uint8Array(multipartBody([{ name: 'model', value: 'speechvendor/scribe-v2' }, file])),
    },
    json('inline image', '/v1/chat/completions', chat),
  ]
}

/** Returns a small request, which shows the cost of probing and of the machine. */
function smallRequest(): Upload {
  return json('a small request', '/v1/chat/completions', {
    model: 'textmodel-2.5-flash',
    messages: [{ role: 'user', content: 'Hello' }],
  })
}

function json(name: string, path: string, value: unknown): Upload {
  return { name, path, contentType: 'application/json', body: Buffer.from(JSON.stringify(value)) }
}

/** Returns a PNG header with as many bytes as a request may contain: the image itself is never decoded. */
function largeImage(): Buffer {
  const image = Buffer.alloc(INLINE_IMAGE_BYTES, 'picture')
  image.write('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0', 'latin1')
  return image
}

async function measure(upload: Upload): Promise<Measurement[]> {
  const key = randomUUID()
  const unpaid = await sendObserved(upload, 'unpaid', key)
  const payment = await sandbox.payer.sign(upload.tool === undefined ? unpaid.answer : await challengeIn(unpaid.answer))
  const signed = await sendObserved(upload, 'signed', key, payment)
  const replay = await sendObserved(upload, 'replay', key, payment)
  return [unpaid, signed, replay].map(({ measurement }) => measurement)
}

async function sendObserved(
  upload: Upload,
  kind: Measurement['kind'],
  key: string,
  payment: Record<string, string> = {},
): Promise<{ answer: Response; measurement: Measurement }> {
  await sandbox.observe()
  const sent = new AbortController()
  const probing = probe(sent.signal)
  const startedAt = performance.now()
  const answer = await fetch(`${sandbox.info.baseUrl}${upload.path}`, {
    method: 'POST',
    ...(upload.tool === undefined
      ? {
          headers: { 'content-type': upload.contentType, 'x-idempotency-key': key, ...payment },
          body: upload.body,
        }
      : toolCall(upload.tool, upload.body, key, payment)),
  })
  await answer.clone().arrayBuffer()
  const milliseconds = performance.now() - startedAt
  sent.abort()
  const slowestProbeMs = await probing
  const { longestBlockMs, longestBusyMs } = await sandbox.observe()
  return {
    answer,
    measurement: {
      upload: upload.name,
      kind,
      status: answer.status,
      milliseconds,
      longestBlockMs,
      longestBusyMs,
      slowestProbeMs,
    },
  }
}

/** Returns a tool call with these arguments; what its endpoint gets in headers is in `_meta`. */
function toolCall(tool: string, args: Uint8Array, key: string, payment: Record<string, string>) {
  const [signature] = Object.values(payment)
  const meta = {
    'farebox/idempotency-key': key,
    ...(signature === undefined
      ? {}
      : { 'x402/payment': JSON.parse(Buffer.from(signature, 'base64').toString()) as object }),
  }
  const head = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","_meta":${JSON.stringify(meta)}`
  return {
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: Buffer.concat([Buffer.from(`${head},"arguments":`), args, Buffer.from('}}')]),
  }
}

/** Returns the challenge in the result of a tool call as the 402 that its endpoint would have sent. */
async function challengeIn(answer: Response): Promise<Response> {
  const { result } = (await answer.json()) as { result: { structuredContent: object } }
  const header = Buffer.from(JSON.stringify(result.structuredContent)).toString('base64')
  return new Response(null, { status: 402, headers: { 'payment-required': header } })
}

/** Returns the slowest answer of `/healthz` until `signal` aborts, this process's own delays included. */
async function probe(signal: AbortSignal): Promise<number> {
  let slowest = 0
  while (!signal.aborted) {
    const startedAt = performance.now()
    await (await fetch(`${sandbox.info.baseUrl}/healthz`)).arrayBuffer()
    slowest = Math.max(slowest, performance.now() - startedAt)
    await delay(PROBE_EVERY_MS)
  }
  return slowest
}
