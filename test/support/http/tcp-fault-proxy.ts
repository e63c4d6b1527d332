import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { PATIENCE_MS } from '../patience.ts'

/** A fault between a client and its target. `to_target` is the client's sending direction. */
export type TcpFault =
  /** Every chunk arrives this much later, in order. */
  | { readonly kind: 'latency'; readonly delayMs: number }
  /** Connections open and stay open, but nothing passes until the fault is healed, as with a lost route. */
  | { readonly kind: 'blackhole' }
  /** New connections are refused, open ones are reset. */
  | { readonly kind: 'refuse' }
  /** A connection is reset once this many bytes have passed in this direction since the fault began. */
  | { readonly kind: 'reset'; readonly afterBytes: number; readonly direction: 'to_target' | 'to_client' }
  /** Requests are delivered; the first bytes of an answer are dropped and the connection is reset. */
  | { readonly kind: 'lost_answer' }
  /**
   * Once so many chunks have been delivered to the target, of all connections together, open ones are reset at once and new
   * ones as they come, until it is healed. With `parting`, the target's side sends that first, and then ends them.
   */
  | { readonly kind: 'outage_after'; readonly chunks: number; readonly parting?: Parting }

/** What a server says to its open connections as it goes away, and to new ones while it is. */
interface Parting {
  readonly toOpen: Uint8Array
  readonly toNew: Uint8Array
}

export interface TcpFaultProxy {
  readonly port: number
  /** How often the current fault has cut a connection or, for `latency` and `blackhole`, affected a chunk. */
  readonly hits: number
  /** Takes effect immediately, on open connections too, and replaces an earlier fault; `null` heals. */
  setFault(fault: TcpFault | null): Promise<void>
  stop(): Promise<void>
}

/** Retried because another program may have taken the port in the meantime. */
const LISTEN_PAUSE_MS = 20

interface Link {
  readonly client: Socket
  readonly target: Socket
  /** Bytes that have passed since the current fault began. */
  passed: { to_target: number; to_client: number }
}

interface ProxyState {
  readonly links: Set<Link>
  fault: TcpFault | null
  hits: number
  /** Chunks to the target since the fault began. */
  chunks: number
}

/** Starts a TCP proxy in front of `target`, on loopback or another address of this machine; it keeps its port through every fault. */
export async function startTcpFaultProxy(
  target: { host: string; port: number },
  address = '127.0.0.1',
): Promise<TcpFaultProxy> {
  const state: ProxyState = { links: new Set(), fault: null, hits: 0, chunks: 0 }
  const port = await findFreePort()
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) =>
    openLink(state, client, target),
  )
  await listen(server, port, address)
  const cutAll = () => {
    for (const link of state.links) cut(state, link)
  }
  return {
    port,
    get hits() {
      return state.hits
    },
    setFault: async (fault) => {
      state.fault = fault
      state.hits = 0
      state.chunks = 0
      for (const link of state.links) {
        link.passed = { to_target: 0, to_client: 0 }
        flow(state, link)
      }
      if (fault?.kind === 'refuse') {
        cutAll()
        if (server.listening) await closeServer(server)
      } else if (!server.listening) {
        await listen(server, port, address)
      }
    },
    stop: async () => {
      cutAll()
      if (server.listening) await closeServer(server)
    },
  }
}

function openLink(state: ProxyState, client: Socket, { host, port }: { host: string; port: number }): void {
  if (state.fault?.kind === 'outage_after' && state.hits > 0) {
    state.hits += 1
    refuse(client, state.fault)
    return
  }
  const target = connect({ host, port, allowHalfOpen: true })
  const link: Link = { client, target, passed: { to_target: 0, to_client: 0 } }
  state.links.add(link)
  // Nagle's algorithm would add a delay.
  client.setNoDelay(true)
  target.setNoDelay(true)
  pass(state, link, 'to_target', client, target)
  pass(state, link, 'to_client', target, client)
  for (const socket of [client, target]) {
    socket.on('error', () => cut(state, link))
    socket.on('close', () => {
      if (client.destroyed && target.destroyed) state.links.delete(link)
    })
  }
  flow(state, link)
}

function pass(state: ProxyState, link: Link, direction: 'to_target' | 'to_client', from: Socket, to: Socket): void {
  /** Delays chunks and the end of the stream, in order. */
  let previous: Promise<void> = Promise.resolve()
  let waiting = 0
  const later = (delayMs: number, act: () => void) => {
    const before = previous
    const afterBoth = async () => {
      await Promise.all([before, delay(delayMs)])
      waiting -= 1
      if (!to.destroyed) act()
    }
    waiting += 1
    previous = afterBoth()
  }
  const send = (piece: Buffer) => {
    const isRoomLeft = to.write(piece)
    if (isRoomLeft) return
    from.pause()
    to.once('drain', () => flow(state, link))
  }
  from.on('data', (piece: Buffer) => {
    const { fault } = state
    if (fault?.kind === 'lost_answer' && direction === 'to_client') return hitAndCut(state, link)
    if (fault?.kind === 'outage_after' && direction === 'to_target') {
      state.chunks += 1
      if (state.chunks === fault.chunks) {
        to.write(piece, () => beginOutage(state, fault))
        return
      }
    }
    if (fault?.kind === 'reset' && fault.direction === direction) {
      const passed = link.passed[direction]
      const left = fault.afterBytes - passed
      link.passed[direction] += piece.length
      // Reset as soon as the remaining bytes have been written.
      if (passed > 0 && left <= 0) return
      if (piece.length >= left) {
        to.write(piece.subarray(0, left), () => hitAndCut(state, link))
        return
      }
    }
    const delayMs = fault?.kind === 'latency' ? fault.delayMs : 0
    if (delayMs > 0) state.hits += 1
    if (delayMs > 0 || waiting > 0) later(delayMs, () => send(piece))
    else send(piece)
  })
  from.on('end', () => later(0, () => to.end()))
}

/** Pauses or resumes a connection. A paused socket leaves incoming bytes in the system's buffers. */
function flow(state: ProxyState, { client, target }: Link): void {
  const isBlocked = state.fault?.kind === 'blackhole'
  if (isBlocked) state.hits += 1
  for (const socket of [client, target]) {
    if (isBlocked) socket.pause()
    else socket.resume()
  }
}

type Outage = Extract<TcpFault, { kind: 'outage_after' }>

function beginOutage(state: ProxyState, { parting }: Outage): void {
  state.hits += 1
  for (const link of state.links) {
    if (parting === undefined) cut(state, link)
    else {
      state.links.delete(link)
      link.target.destroy()
      endWith(link.client, parting.toOpen)
    }
  }
}

/** Resets a new connection or, once it has asked for something, says why not. */
function refuse(client: Socket, { parting }: Outage): void {
  client.on('error', () => undefined)
  if (parting === undefined) client.resetAndDestroy()
  else {
    client.once('data', () => endWith(client, parting.toNew)).resume()
    client.once('end', () => client.destroy())
  }
}

/** Sends the last bytes of a connection, of which nothing more is read. */
function endWith(socket: Socket, bytes: Uint8Array): void {
  socket.end(bytes, () => socket.destroy())
}

function hitAndCut(state: ProxyState, link: Link): void {
  state.hits += 1
  cut(state, link)
}

function cut(state: ProxyState, link: Link): void {
  state.links.delete(link)
  for (const socket of [link.client, link.target]) if (!socket.destroyed) socket.resetAndDestroy()
}

async function listen(server: Server, port: number, address: string): Promise<void> {
  for (const startedAt = Date.now(); ;) {
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject).listen(port, address, () => {
          server.off('error', reject)
          resolve()
        })
      })
      return
    } catch (error) {
      server.removeAllListeners('error')
      if (Date.now() - startedAt > PATIENCE_MS) throw error
      await delay(LISTEN_PAUSE_MS)
    }
  }
}

/** Stops listening immediately; open connections are left to the caller. */
async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.close(() => resolve()))
}
