import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { z } from 'zod'

const attributesSchema = z
  .array(
    z.object({
      key: z.string(),
      value: z.object({ stringValue: z.string().optional(), intValue: z.union([z.string(), z.number()]).optional() }),
    }),
  )
  .default([])
  .transform((list) =>
    Object.fromEntries(list.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)])),
  )

/** The parts of an OTLP 1.x JSON request that tests read. */
const requestSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: attributesSchema }),
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              traceId: z.string(),
              spanId: z.string(),
              parentSpanId: z.string().default(''),
              name: z.string(),
              startTimeUnixNano: z.string(),
              endTimeUnixNano: z.string(),
              attributes: attributesSchema,
              status: z.object({ code: z.number().default(0) }).default({ code: 0 }),
            }),
          ),
        }),
      ),
    }),
  ),
})

/** An exported span. `parentSpanId` is empty for the root of a trace. */
export interface ExportedSpan {
  readonly service: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number>>
  readonly isError: boolean
}

export interface TraceCollector {
  readonly url: string
  readonly spans: readonly ExportedSpan[]
  /** Every received body, as text. */
  readonly received: readonly string[]
  stop(): Promise<void>
}

/** Starts a server that receives spans over OTLP/HTTP, as an OpenTelemetry collector does. */
export async function startTraceCollector(): Promise<TraceCollector> {
  const spans: ExportedSpan[] = []
  const received: string[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const bytes = Buffer.concat(chunks)
      const text = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
      const isTraces = request.method === 'POST' && request.url === '/v1/traces'
      if (isTraces) {
        received.push(text)
        spans.push(...readSpans(text))
      }
      response.writeHead(isTraces ? 200 : 404, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    received,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function readSpans(text: string): readonly ExportedSpan[] {
  return requestSchema.parse(JSON.parse(text)).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ startTimeUnixNano, endTimeUnixNano, status, ...span }) => ({
        ...span,
        service: String(resource.attributes['service.name']),
        startMs: Number(BigInt(startTimeUnixNano) / 1000n) / 1000,
        endMs: Number(BigInt(endTimeUnixNano) / 1000n) / 1000,
        isError: status.code === 2,
      })),
    ),
  )
}

/** Returns the spans of the trace that a request began, or none while its root span is missing. */
export function traceOf(spans: readonly ExportedSpan[], requestId: string): readonly ExportedSpan[] {
  const root = spans.find(
    ({ parentSpanId, attributes }) => parentSpanId === '' && attributes['farebox.request_id'] === requestId,
  )
  return root ? spans.filter(({ traceId }) => traceId === root.traceId) : []
}

/** Returns `service: parent > name` of each span, sorted. */
export function renderTrace(spans: readonly ExportedSpan[]): readonly string[] {
  return spans
    .map(({ service, name, parentSpanId }) => {
      const parent = spans.find(({ spanId }) => spanId === parentSpanId)
      return `${service}: ${parent ? `${parent.name} > ` : parentSpanId && 'lost > '}${name}`
    })
    .sort()
}
