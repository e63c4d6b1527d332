import { connect } from 'node:net'
import { PATIENCE_MS } from '../patience.ts'

/** A request that HTTP clients refuse to send. */
export interface RawRequest {
  readonly path: string
  /** Sent in this order and spelling, with repetitions; `host` and `connection` are added. */
  readonly headers: readonly (readonly [string, string])[]
  /** Sent piece by piece, until the answer arrives. */
  readonly body?: Iterable<Uint8Array>
}

/** Sends a `POST` over a separate socket. Returns the answer as soon as it is complete, even when the body is not. */
export async function sendRaw(
  baseUrl: string,
  { path, headers, body = [] }: RawRequest,
): Promise<{ answer: Response; sentBytes: number }> {
  const { hostname, port, host } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  const answered = Promise.withResolvers<Response>()
  let received = Buffer.alloc(0)
  let sentBytes = 0
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    const answer = parseAnswer(received)
    if (answer) answered.resolve(answer)
  })
  socket.on('close', () => answered.reject(new Error(`closed without an answer: ${received.toString('latin1')}`)))
  socket.on('error', (error) => answered.reject(error))
  socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error('no answer in time')))
  const fields = [['host', host], ...headers, ['connection', 'close']]
  socket.write(
    Buffer.from(`POST ${path} HTTP/1.1\r\n${fields.map((pair) => pair.join(': ')).join('\r\n')}\r\n\r\n`, 'latin1'),
  )
  let isAnswered = false
  void answered.promise.then(
    () => (isAnswered = true),
    () => (isAnswered = true),
  )
  for (const piece of body) {
    if (isAnswered) break
    sentBytes += piece.length
    const wantsMore = socket.write(piece)
    const drained = wantsMore
      ? new Promise<void>((resolve) => setImmediate(resolve))
      : new Promise<void>((resolve) => socket.once('drain', resolve))
    await Promise.race([drained, answered.promise.then(() => undefined)])
  }
  try {
    return { answer: await answered.promise, sentBytes }
  } finally {
    socket.destroy()
  }
}

/** Sends bytes as they are over a separate socket. Returns everything that arrives until the API closes it. */
export async function exchangeBytes(baseUrl: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  const closed = Promise.withResolvers<void>()
  const received: Buffer[] = []
  socket.on('data', (chunk: Buffer) => received.push(chunk))
  socket.on('close', () => closed.resolve())
  socket.on('error', (error) => closed.reject(error))
  socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error('the connection was not closed in time')))
  socket.write(Buffer.from(bytes, 'latin1'))
  await closed.promise
  return Buffer.concat(received).toString('latin1')
}

/** Parses the first answer among received bytes. */
export function firstAnswer(received: string): Response {
  const answer = parseAnswer(Buffer.from(received, 'latin1'))
  if (!answer) throw new Error(`no complete answer: ${received}`)
  return answer
}

function parseAnswer(received: Buffer): Response | null {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const [statusLine = '', ...lines] = received.subarray(0, headEnd).toString('latin1').split('\r\n')
  const headers = new Headers(
    lines.map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const body = received.subarray(headEnd + 4)
  if (body.length < Number(headers.get('content-length'))) return null
  return new Response(new Uint8Array(body), { status: Number(statusLine.split(' ')[1]), headers })
}
