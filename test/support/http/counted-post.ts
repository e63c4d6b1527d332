import { request } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** Sends a `POST` over a separate connection, and counts every byte that is written to its socket. */
export async function countedPost(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Promise<{ answer: Response; sentBytes: number }> {
  const answered = Promise.withResolvers<Response>()
  const sent = request(url, { method: 'POST', agent: false, headers: { ...headers, 'content-length': body.length } })
  sent.on('error', answered.reject).on('response', (message) => {
    const received = Object.entries(message.headers).map(([name, value]): [string, string] => [name, String(value)])
    buffer(message).then(
      (bytes) => answered.resolve(new Response(bytes, { status: message.statusCode ?? 0, headers: received })),
      answered.reject,
    )
  })
  sent.end(body)
  const answer = await answered.promise
  return { answer, sentBytes: sent.socket?.bytesWritten ?? Number.NaN }
}
