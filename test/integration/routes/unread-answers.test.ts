import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import fastify from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { limitUnreadAnswers } from '../../../api/plugins/unread-answers.ts'
import { until } from '../../support/until.ts'

/** More than the operating system takes for a connection that nobody reads. */
const ANSWER_BYTES = 24_000_000
const STALLED_MS = 1000

async function serve(limits: { stalledMs: number; totalBytes: number }) {
  const app = fastify()
  limitUnreadAnswers(app, limits)
  app.get('/large', () => 'x'.repeat(ANSWER_BYTES))
  app.get('/shared', (_, reply) => reply.header('etag', '"a"').send('x'.repeat(ANSWER_BYTES)))
  app.get('/held', () => delay(3 * STALLED_MS, 'at last'))
  await app.listen({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => app.close())
  const { port } = app.server.address() as { port: number }
  const connections = () =>
    new Promise<number>((resolve, reject) => {
      app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
    })
  /** Asks for the paths on one connection, and reads nothing until it is resumed. */
  const ask = (...paths: readonly string[]): Socket => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined).pause()
    for (const path of paths) socket.write(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`)
    onTestFinished(() => void socket.destroy())
    return socket
  }
  return Object.assign(ask, { connections })
}

/** Reads what arrives; returns how many bytes so far. */
function counted(socket: Socket): () => number {
  let bytes = 0
  socket.on('data', (chunk: Buffer) => (bytes += chunk.length))
  return () => bytes
}

/** Returns how many bytes come before the connection ends. */
async function drained(socket: Socket): Promise<number> {
  const read = counted(socket)
  socket.resume()
  await Promise.race([once(socket, 'close'), until(() => read() > ANSWER_BYTES)])
  return read()
}

describe('an answer that is not read', () => {
  it('closes its connection once it has made no progress for a time', async () => {
    const ask = await serve({ stalledMs: STALLED_MS, totalBytes: 1e9 })
    const [unread, shared] = [ask('/large'), ask('/shared')]
    await until(async () => (await ask.connections()) === 2)
    await until(async () => (await ask.connections()) === 0)
    expect(await drained(unread)).toBeLessThan(ANSWER_BYTES)
    expect(await drained(shared)).toBeLessThan(ANSWER_BYTES)
  })

  it('is sent to a slow reader for as long as it is read', async () => {
    const ask = await serve({ stalledMs: STALLED_MS, totalBytes: 1e9 })
    const socket = ask('/large')
    const read = counted(socket)
    // In steps that are larger than what the operating systems hold: only then does the sender see them.
    for (let step = 1; step <= 6; step += 1) {
      socket.resume()
      await until(() => read() > (step / 6) * ANSWER_BYTES)
      socket.pause()
      await delay(STALLED_MS / 2)
    }
    expect(read()).toBeGreaterThan(ANSWER_BYTES)
  })

  it('closes the connection that has waited longest when all of them are too much, but not for what all share', async () => {
    const ask = await serve({ stalledMs: 60_000, totalBytes: 2.5 * ANSWER_BYTES })
    const shared = ask('/shared')
    const sockets: Socket[] = []
    for (let index = 0; index < 4; index += 1) {
      sockets.push(ask('/large'))
      await delay(200)
    }
    const read = await Promise.all([shared, ...sockets].map(drained))
    expect(read.map((bytes) => bytes > ANSWER_BYTES)).toEqual([true, false, false, true, true])
  })

  it('leaves the connection of an answer that was read, idle or held, to others', async () => {
    const ask = await serve({ stalledMs: STALLED_MS, totalBytes: 1e9 })
    const socket = ask('/large')
    expect(await drained(socket)).toBeGreaterThan(ANSWER_BYTES)
    await delay(2 * STALLED_MS)
    let answer = ''
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
    socket.write('GET /held HTTP/1.1\r\nhost: a\r\n\r\n')
    await until(() => answer.includes('at last'))
  })

  it('does not close a connection whose first caller is held', async () => {
    const ask = await serve({ stalledMs: STALLED_MS, totalBytes: 1e9 })
    const socket = ask('/held', '/large')
    expect(await drained(socket)).toBeGreaterThan(ANSWER_BYTES)
  })
})
