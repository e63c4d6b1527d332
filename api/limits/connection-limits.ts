import { BlockList, isIPv4, isIPv6, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { clientGroups } from '#shared/runtime/client-address.ts'
import { NAMED_NETWORKS, netmaskBits } from '#shared/runtime/trusted-proxies.ts'
import { createFairPool, overloaded } from '../request/fair-pool.ts'

/** Limits of the connections to one process. */
export interface ConnectionLimits {
  readonly connections: number
  /** Per network of a client; behind a trusted proxy, of the requests in progress that it forwards for the client. */
  readonly connectionsPerClient: number
}

/** Room for idle connections, uploads and free requests beside the callers that are held. */
const CONNECTIONS_PER_HELD = 4
const LEAST_CONNECTIONS = 20_000
const SHARE_OF_CLIENT = 1 / 5

/** Returns the limits of a process that may hold as many callers as given. */
export function connectionLimits(maximumHeld: number): ConnectionLimits {
  const connections = Math.max(LEAST_CONNECTIONS, CONNECTIONS_PER_HELD * maximumHeld)
  return { connections, connectionsPerClient: Math.ceil(connections * SHARE_OF_CLIENT) }
}

/** Time limit from a new connection, or the end of the previous response, to the end of a request's head. */
export const HEAD_TIMEOUT_MS = 30_000
/** How often that limit is checked. */
export const HEAD_CHECK_MS = 5000

const RETRY_SECONDS = 5
const REFUSAL = [
  'HTTP/1.1 503 Service Unavailable',
  'content-length: 0',
  `retry-after: ${RETRY_SECONDS}`,
  'cache-control: no-store',
  'connection: close',
]

/**
 * Limits connections: in total, which keeps the process below the operating system's limit of open files, and per
 * client, so that one client does not take all of them. Connections beyond a limit are closed before they are read.
 * Connections of trusted proxies carry the requests of all clients, so there the requests in progress are limited.
 */
export function addConnectionLimits(
  app: FastifyInstance,
  { connections, connectionsPerClient }: ConnectionLimits,
  trustedProxies: readonly string[] = [],
): void {
  const isProxy = createProxyCheck(trustedProxies)
  const connectionsOf = createCounts(connectionsPerClient)
  const requestsOf = createCounts(connectionsPerClient)
  const pool = createFairPool(connections)
  app.server.maxConnections = connections
  app.server.on('connection', (socket: Socket) => {
    const { remoteAddress = '' } = socket
    if (isProxy(remoteAddress)) return
    const client = clientGroups(remoteAddress)
    const release = pool.fits(client, 1, 1) ? connectionsOf.take(client) : null
    if (!release) {
      socket.pause()
      socket.end(`${REFUSAL.join('\r\n')}\r\n\r\n`, () => socket.destroy())
      return
    }
    pool.take(client, 1)
    socket.once('close', () => {
      release()
      pool.release(client, 1)
    })
  })
  if (trustedProxies.length > 0)
    app.addHook('onRequest', (request, reply, done) => {
      if (!isProxy(request.socket.remoteAddress ?? '')) return done()
      const release = requestsOf.take(clientGroups(request.ip))
      if (!release) throw overloaded('Too many requests of this address are in progress.', RETRY_SECONDS)
      reply.raw.once('close', release)
      done()
    })
  answerHalfClosedConnections(app)
}

/**
 * Answers clients that close the sending half of the connection after their request. Node would treat them as
 * disconnected, and drop the response of every request that is not answered immediately.
 */
function answerHalfClosedConnections({ server }: FastifyInstance): void {
  // A property of Node's HTTP server that is neither documented nor typed.
  Object.assign(server, { httpAllowHalfOpen: true })
}

function createCounts(limit: number) {
  const counts = new Map<string, number>()
  return {
    /** Counts one more for each group. Returns the function that undoes it, or `null` at the limit. */
    take: (groups: readonly string[]): (() => void) | null => {
      if (groups.some((group) => (counts.get(group) ?? 0) >= limit)) return null
      for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1)
      return () => {
        for (const group of groups) {
          const left = (counts.get(group) ?? 0) - 1
          if (left > 0) counts.set(group, left)
          else counts.delete(group)
        }
      }
    },
  }
}

/** Returns whether an address is one of the trusted ones, in the notations that Fastify accepts. */
function createProxyCheck(trusted: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of trusted.flatMap((entry) => NAMED_NETWORKS[entry] ?? [entry])) {
    const [address = '', size] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (size === undefined) list.addAddress(address, family)
    else list.addSubnet(address, isIPv4(size) ? netmaskBits(size).replaceAll('0', '').length : Number(size), family)
  }
  return (address) => (isIPv4(address) ? list.check(address) : isIPv6(address) && list.check(address, 'ipv6'))
}
