import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'

/** Self-signed for `images.test` and `other.test`, valid from 2020 to 2120. Used nowhere else. */
export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBcjCCARmgAwIBAgIBATAKBggqhkjOPQQDAjAWMRQwEgYDVQQDDAtpbWFnZXMu
dGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFjEUMBIGA1UE
AwwLaW1hZ2VzLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAScRzE7TPjI
XK8tOhB2gwDGzxz2IgkGLYq70yiqla41Pv6M18grpKV2hG24yCIMxumcmR7Wupa3
M2Le8wVtMv3Io1YwVDAiBgNVHREEGzAZggtpbWFnZXMudGVzdIIKb3RoZXIudGVz
dDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBS54Hrp1C8JMmTi/LqkNylQqxXS
wzAKBggqhkjOPQQDAgNHADBEAiBMva2R5icwy1LljAzSEPd/+2iFToZScLlZ8WsE
cVNbawIgZ/7jgreFuSiIzMw25IwSKAOzFqn5MxSnp3XeYz2nReM=
-----END CERTIFICATE-----
`
export const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg9m+ZHTEwmLBqV9Ir
npnb9sQQeKH3T7E7760kBX8Yaw6hRANCAAScRzE7TPjIXK8tOhB2gwDGzxz2IgkG
LYq70yiqla41Pv6M18grpKV2hG24yCIMxumcmR7Wupa3M2Le8wVtMv3I
-----END PRIVATE KEY-----
`

/** An HTTPS server on every loopback address that records its requests. */
export interface ImageServer {
  readonly port: number
  /** Local address and path of each request, in order. */
  readonly requests: readonly string[]
  /** Local address of each TCP connection, in order. */
  readonly connections: readonly string[]
  answerWith(listener: RequestListener): void
  /** Clears the records and closes open connections. */
  clear(): void
  stop(): Promise<void>
}

const notFound: RequestListener = (_, response) => response.writeHead(404).end()

export async function startImageServer(): Promise<ImageServer> {
  const requests: string[] = []
  const connections: string[] = []
  let answer = notFound
  const server = createServer({ cert: CERTIFICATE, key: KEY }, (request, response) => {
    requests.push(`${request.socket.localAddress ?? ''}${request.url ?? ''}`)
    answer(request, response)
  })
  server.on('connection', (socket: Socket) => connections.push(socket.localAddress ?? ''))
  // Some tests expect clients that reject the certificate or disconnect early.
  server.on('tlsClientError', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    connections,
    answerWith: (listener) => {
      answer = listener
    },
    clear: () => {
      server.closeAllConnections()
      requests.length = 0
      connections.length = 0
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
