/** An HTTP response that was read completely. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
}

/** Reads a response completely; a body that breaks off rejects. */
export async function readAnswer(response: Response): Promise<HttpAnswer> {
  return { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) }
}

/** Statuses that `Response` accepts only without a body. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304])

/** Returns the answer as `fetch` would. The body is decoded already, so the headers about its encoding are dropped. */
export function toResponse({ status, headers, body }: HttpAnswer): Response {
  const copied = new Headers(headers)
  copied.delete('content-encoding')
  copied.delete('content-length')
  return new Response(WITHOUT_BODY.has(status) ? null : body, { status, headers: copied })
}
