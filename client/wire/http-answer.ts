/** An HTTP response that was read completely. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
}

/** More than any result: ten images of 4 MB in Base64 have 54 MB. */
const LARGEST_RESULT_BYTES = 128 * 1024 * 1024
/** Errors and challenges have a few kilobytes; the rest of a longer one is not read. */
const LARGEST_ERROR_BYTES = 1024 * 1024

/** A server may send without end; memory is not to be filled with it. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge'

  constructor() {
    super(`the answer is larger than ${LARGEST_RESULT_BYTES} bytes`)
  }
}

/** Reads a response completely; a body that breaks off rejects, and so does a result beyond all bounds. */
export async function readAnswer(response: Response, onPiece?: () => void): Promise<HttpAnswer> {
  const { status, headers } = response
  onPiece?.()
  return { status, headers, body: await readBody(response, onPiece) }
}

async function readBody({ body, ok }: Response, onPiece?: () => void): Promise<Uint8Array<ArrayBuffer>> {
  if (body === null) return new Uint8Array()
  const largest = ok ? LARGEST_RESULT_BYTES : LARGEST_ERROR_BYTES
  const chunks: Uint8Array[] = []
  let bytes = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of body) {
    onPiece?.()
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes <= largest) continue
    if (ok) throw new AnswerTooLarge()
    break
  }
  return Buffer.concat(chunks, Math.min(bytes, largest))
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
