import { randomUUID } from 'node:crypto'

/**
 * A request body that is sent piece by piece: the parts of a large one are in memory once, and only the piece on its
 * way a second time. It can be opened again for the next deployment.
 */
export interface StreamedBody {
  readonly contentType: string
  readonly bytes: number
  readonly open: () => ReadableStream<Uint8Array>
}

/** The one file of a form. */
export interface FormFile {
  readonly field: string
  readonly name: string
  readonly contentType: string
  readonly bytes: Uint8Array
}

/** Small enough that the copies which TLS makes of a piece do not matter. */
const PIECE_BYTES = 64 * 1024

/** Creates a multipart form with its file at the end. The names are ours; only the values come from callers. */
export function streamedForm(fields: Readonly<Record<string, string>>, file: FormFile): StreamedBody {
  const boundary = `farebox-${randomUUID()}`
  const texts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  const fileHead = `--${boundary}\r\ncontent-disposition: form-data; name="${file.field}"; filename="${file.name}"\r\ncontent-type: ${file.contentType}\r\n\r\n`
  const head = Buffer.from(`${texts.join('')}${fileHead}`)
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + file.bytes.length + tail.length,
    open: () => streamOf(piecesOf([head, file.bytes, tail])),
  }
}

/** Creates a body of text that is encoded only while it is sent. */
export function streamedText(text: string, contentType: string): StreamedBody {
  return { contentType, bytes: Buffer.byteLength(text), open: () => streamOf(encodedPiecesOf(text)) }
}

export function isStreamedBody(body: object): body is StreamedBody {
  return 'open' in body && typeof body.open === 'function'
}

function* piecesOf(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const part of parts)
    for (let at = 0; at < part.length; at += PIECE_BYTES) yield part.subarray(at, at + PIECE_BYTES)
}

function* encodedPiecesOf(text: string): Generator<Uint8Array> {
  for (let at = 0; at < text.length;) {
    const end = at + PIECE_BYTES
    // A surrogate pair is encoded as one character.
    const isSplit = (text.codePointAt(end - 1) ?? 0) > 0xffff
    const next = isSplit ? end - 1 : end
    yield Buffer.from(text.slice(at, next))
    at = next
  }
}

/** Not a stream of bytes, which would copy each piece. Nothing is read ahead. */
function streamOf(pieces: Generator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const { done, value } = pieces.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => void pieces.return(undefined),
    },
    { highWaterMark: 0 },
  )
}
