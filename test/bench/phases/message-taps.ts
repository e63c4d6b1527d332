import { createServer as createHttpServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startPostgresProxy, textAt } from '../measuring/postgres-proxy.ts'

/** A message of a service and its answer: a statement, an RPC call or a call of a vendor. Times in Unix milliseconds. */
export interface TappedMessage {
  /** The statement's prepared name or beginning, or the method or path of an HTTP call. */
  readonly what: string
  readonly sentAt: number
  readonly answeredAt: number
}

export interface MessageTap {
  readonly url: string
  stop(): Promise<void>
}

type OnMessage = (message: TappedMessage) => void

/** What is left of a statement without a name. */
const SHOWN_CHARACTERS = 48
const [QUERY, PARSE, BIND, SYNC, READY, NOTIFICATION] = ['Q', 'P', 'B', 'S', 'Z', 'A'].map((letter) =>
  letter.charCodeAt(0),
)

/**
 * Starts a proxy in front of PostgreSQL that reports each statement with the time until the server was ready for the next
 * one, and each notification at the time of its arrival.
 */
export async function tapPostgres(databaseUrl: string, onMessage: OnMessage): Promise<MessageTap> {
  return await startPostgresProxy(databaseUrl, () => {
    const pending: { what: string; sentAt: number }[] = []
    const names = new Map<string, string>()
    let what = ''
    return {
      fromClient: (type, content) => {
        if (type === QUERY) pending.push({ what: shorten(textAt(content, 0).text), sentAt: unixMs() })
        if (type === PARSE) {
          const name = textAt(content, 0)
          names.set(name.text, name.text === '' ? shorten(textAt(content, name.end).text) : name.text)
        }
        if (type === BIND) what = names.get(textAt(content, textAt(content, 0).end).text) ?? 'unknown'
        if (type === SYNC) pending.push({ what, sentAt: unixMs() })
      },
      fromServer: (type, content) => {
        if (type === NOTIFICATION) {
          const channel = textAt(content, 4).text
          onMessage({ what: `notification ${channel}`, sentAt: unixMs(), answeredAt: unixMs() })
        }
        if (type !== READY) return
        const first = pending.shift()
        if (first) onMessage({ ...first, answeredAt: unixMs() })
      },
    }
  })
}

/** Starts a proxy in front of a plain HTTP server that reports each call, by its RPC method if it has one, else by its path. */
export async function tapHttp(url: string, onMessage: OnMessage): Promise<MessageTap> {
  const target = new URL(url)
  const server = createHttpServer((request, response) => {
    const chunks: Buffer[] = []
    const sentAt = unixMs()
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const method = /"method":"(\w+)"/.exec(body.subarray(0, 200).toString('latin1'))?.[1]
      const { method: verb, url: path, headers } = request
      const onward = httpRequest(
        { host: target.hostname, port: target.port, path, method: verb, headers, agent: false },
        (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers)
          answer.pipe(response)
          answer.on('end', () => onMessage({ what: method ?? `${verb} ${path}`, sentAt, answeredAt: unixMs() }))
        },
      )
      onward.on('error', () => response.destroy())
      onward.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const tapped = new URL(target)
  tapped.port = String((server.address() as AddressInfo).port)
  return {
    url: tapped.href.replace(/\/$/, ''),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function shorten(statement: string): string {
  return statement.replaceAll(/\s+/g, ' ').trim().slice(0, SHOWN_CHARACTERS)
}

function unixMs(): number {
  return performance.timeOrigin + performance.now()
}
