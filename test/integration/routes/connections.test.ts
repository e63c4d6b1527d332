import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fastify from 'fastify'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { createAdmission } from '../../../api/limits/admission.ts'
import { addConnectionLimits, type ConnectionLimits } from '../../../api/limits/connection-limits.ts'
import { createLoadGate } from '../../../api/limits/load-gate.ts'
import { addErrorHandling, answerMalformedHttp } from '../../../api/plugins/errors.ts'
import { addJsonBodies } from '../../../api/plugins/json-bodies.ts'
import { UNLIMITED_ARRIVAL } from '../../../api/request/body-bytes.ts'
import { readMultipart } from '../../../api/request/multipart.ts'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from '../../../api/routes/health.ts'
import { createCallerHold, holdConnection } from '../../../api/routes/held-connection.ts'
import { until } from '../../support/until.ts'
import { composeApp } from './compose-app.ts'

const { upload } = transcriptions
if (!upload) throw new Error('transcriptions take an upload')
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
interface AppOptions extends Partial<ConnectionLimits> {
  readonly trustedProxies?: string[]
  readonly headersTimeout?: number
  /** The hold of a caller, by default longer than a test. */
  readonly holdMs?: number
}
/** Serves a JSON route, a form and a held caller with the plugins that every request of the API passes. */
async function serve(options: AppOptions = {}) {
  const { connections = 100, connectionsPerClient = 100, trustedProxies, headersTimeout = 60_000 } = options
  let nowMs = 0
  const gate = createLoadGate(
    {
      bodyBytes: 80 * 1024 * 1024,
      held: { total: 10, perPayer: 10, perClient: 10, perJob: 10 },
      queueAgeMs: 1000,
    },
    () => nowMs,
  )
  const admission = createAdmission({
    gate,
    payingCallers: { isPaying: () => false, isKnownPayer: () => false },
    queueAge: async () => 0,
    mp3Inspector: { retryAfterSeconds: () => null },
    expectUpload: () => undefined,
    store: { hasJob: async () => false, findBinding: async () => null },
  })
  const app = fastify({
    trustProxy: trustedProxies ?? false,
    forceCloseConnections: true,
    clientErrorHandler: answerMalformedHttp,
    http: { headersTimeout, connectionsCheckingInterval: 20 },
  })
  app.removeAllContentTypeParsers()
  addErrorHandling(app, () => false, silent)
  addConnectionLimits(app, { connections, connectionsPerClient }, trustedProxies)
  addJsonBodies(app, admission, { expectBody: () => undefined })
  await app.register(multipart)
  app.addHook('onRequest', async (request, reply) => {
    if (request.method === 'POST') await admission.admit(request, reply, { operation: null, idempotencyKey: null })
  })
  app.post('/json', async ({ body }) => {
    await delay(20)
    return { body }
  })
  app.post('/form', (request) =>
    readMultipart(request, upload as NonNullable<typeof upload>, admission.reservationOf(request) ?? UNLIMITED_ARRIVAL),
  )
  const held: string[] = []
  app.post('/held', async (request, reply) => {
    const { stopWaiting, release } = holdConnection(request, reply, {
      holdMs: options.holdMs ?? 600_000,
      stopping: new AbortController().signal,
      freeSlot: () => held.push('freed'),
    })
    held.push('held')
    if (!stopWaiting.aborted) await once(stopWaiting, 'abort')
    release()
    return { state: 'in progress' }
  })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  onTestFinished(() => app.close())
  return {
    app,
    port,
    held,
    load: gate.currentLoad,
    /** Lets a time pass that is judged each second. */
    pass: (seconds: number) => {
      for (let passed = 0; passed < seconds; passed += 1) {
        nowMs += 1000
        gate.judgeSpeeds()
      }
    },
  }
}
function open(port: number, allowHalfOpen = false): Socket {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen })
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  return socket
}
const post = (path: string, headers: Record<string, string | number>, body = '') =>
  [`POST ${path} HTTP/1.1`, 'host: test', ...Object.entries(headers).map((pair) => pair.join(': ')), '', body].join(
    '\r\n',
  )
const json = { 'content-type': 'application/json' }
/** Waits until the server has this many connections. */
async function opened(app: FastifyInstance, count: number): Promise<void> {
  await until(async () => {
    const current = await new Promise<number>((resolve) => {
      app.server.getConnections((_, connections) => resolve(connections))
    })
    return current === count
  })
}
const up = async () => undefined
const down = async () => {
  throw new Error('postgres://user:secret@host')
}
const throws = () => {
  throw new Error('not open')
}
const hangs = () => new Promise<void>(() => undefined)
const ask = async (
  url: string,
  required: ReadinessChecks['required'],
  warnings: ReadinessWarnings = {},
  {
    shared = {},
    draining = new AbortController().signal,
  }: Partial<{ shared: ReadinessChecks['shared']; draining: AbortSignal }> = {},
) => (await composeApp((app) => addHealthRoutes(app, { required, shared }, warnings, draining))).inject(url)

describe('a body that arrives too slowly', () => {
  it.each([
    ['/json', json],
    ['/form', { 'content-type': 'multipart/form-data; boundary=b' }],
  ])('is answered 408 at %s, and its connection is closed', async (path, headers) => {
    const { port, pass, load } = await serve()
    const socket = open(port)
    socket.write(post(path, { ...headers, 'content-length': 100 }, '--b\r\n'))
    await until(() => load().bodyBytes > 0)
    await delay(50)
    pass(17)
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
    expect(answer).toMatch(/\r\nconnection: close\r\n/i)
    expect(answer).toContain('"code":"request_timeout"')
    expect(answer).toContain('"payment":"none"')
    await until(() => load().bodyBytes === 0)
  })
})

describe('a head that never ends', () => {
  it('answers 408 to a request head that never ends', async () => {
    const { port } = await serve({ headersTimeout: 100 })
    const socket = open(port)
    socket.write('POST /json HTTP/1.1\r\nhost: te')
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
    expect(answer).toContain('"code":"request_timeout"')
  })
  it('closes an idle connection without sending anything', async () => {
    const { port } = await serve({ headersTimeout: 100 })
    expect(await text(open(port))).toBe('')
  })
})

describe('input behind a request that the parser rejects', () => {
  it('leaves the answer to the request as it is, gets none itself and closes the connection', async () => {
    const { port } = await serve()
    const socket = open(port)
    socket.write(`${post('/json', { ...json, 'content-length': 2 }, '{}')}no request\r\n\r\n`)
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"body":\{\}\}$/)
  })
})

describe('a client that closes the sending half of its connection', () => {
  it('answers a client that closed its sending half, even after a while', async () => {
    const { port } = await serve()
    const socket = open(port, true)
    socket.end(post('/json', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"body":\{\}\}$/)
  })
  it('does not hold a caller whose connection was lost before the hold began', () => {
    const { stopWaiting, release } = holdConnection(
      { raw: { socket: new EventEmitter() } } as unknown as FastifyRequest,
      { raw: Object.assign(new EventEmitter(), { closed: true }) } as unknown as FastifyReply,
      { holdMs: 280_000, stopping: new AbortController().signal, freeSlot: () => undefined },
    )
    expect(stopWaiting.aborted).toBe(true)
    release()
  })
  it('leaves the place of its first wait when it waits for something else, and is held no longer in all', () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const [socket, raw] = [new EventEmitter(), new EventEmitter()]
    const hold = createCallerHold(
      { raw: { socket } } as unknown as FastifyRequest,
      { raw } as unknown as FastifyReply,
      { holdMs: 1000, stopping: new AbortController().signal },
    )
    const freed: string[] = []
    hold.holdIn(() => freed.push('turn'))
    vi.advanceTimersByTime(600)
    const stopWaiting = hold.holdIn(() => freed.push('job'))
    expect(freed).toEqual(['turn'])
    vi.advanceTimersByTime(399)
    expect(stopWaiting.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(stopWaiting.aborted).toBe(true)
    expect(hold.holdIn(null).aborted).toBe(true)
    hold.release()
    expect(freed).toEqual(['turn', 'job'])
    expect([socket.listenerCount('end'), raw.listenerCount('close')]).toEqual([0, 0])
  })
  it('is answered after the hold', async () => {
    const { port, held } = await serve({ holdMs: 50 })
    const socket = open(port, true)
    socket.end(post('/held', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(socket)).toContain('in progress')
    expect(held).toEqual(['held', 'freed'])
  })
  it.each([
    ['before', true],
    ['after', false],
  ])('is held for ten seconds when it does so %s the hold begins, since it may be gone', (_, isEnded) => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const socket = Object.assign(new EventEmitter(), { readableEnded: isEnded })
    const { stopWaiting, release } = holdConnection(
      { raw: { socket } } as unknown as FastifyRequest,
      { raw: new EventEmitter() } as unknown as FastifyReply,
      { holdMs: 280_000, stopping: new AbortController().signal, freeSlot: () => undefined },
    )
    if (!isEnded) {
      vi.advanceTimersByTime(200_000)
      socket.emit('end')
    }
    vi.advanceTimersByTime(9_999)
    expect(stopWaiting.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(stopWaiting.aborted).toBe(true)
    release()
    expect(socket.listenerCount('end')).toBe(0)
  })
})

describe('connections to the API', () => {
  it('closes connections beyond the limit of the process', async () => {
    // Connections of a proxy carry the requests of many clients and share only this limit.
    const { app, port } = await serve({ connections: 2, trustedProxies: ['127.0.0.1'] })
    const sockets = [open(port), open(port)]
    await opened(app, 2)
    expect(await text(open(port))).toBe('')
    sockets[0]?.destroy()
    await opened(app, 1)
    const next = open(port)
    next.end(post('/json', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(next)).toMatch(/^HTTP\/1\.1 200 OK/)
  })
  it('leaves connections for other clients, however many one client opens', async () => {
    const { app, port } = await serve({ connections: 8 })
    const sockets = Array.from({ length: 6 }, () => open(port))
    await opened(app, 6)
    expect(await text(open(port))).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/)
    const other = connect({ port, host: '127.0.0.1', localAddress: '127.66.0.1' })
    other.end(post('/json', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(other)).toMatch(/^HTTP\/1\.1 200 OK/)
    for (const socket of sockets) socket.destroy()
    await opened(app, 0)
    const again = open(port)
    again.end(post('/json', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(again)).toMatch(/^HTTP\/1\.1 200 OK/)
  })
  it('answers 503 to connections beyond the limit of a client, until others are closed', async () => {
    const { app, port } = await serve({ connectionsPerClient: 2 })
    const sockets = [open(port), open(port)]
    await opened(app, 2)
    expect(await text(open(port))).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n[^]*retry-after: 5\r\n/)
    sockets[0]?.destroy()
    await opened(app, 1)
    const next = open(port)
    next.end(post('/json', { ...json, 'content-length': 2 }, '{}'))
    expect(await text(next)).toMatch(/^HTTP\/1\.1 200 OK/)
  })
  it.each([['127.0.0.1'], ['127.0.0.0/255.0.0.0'], ['loopback']])(
    'limits the requests in progress of a client instead behind the trusted proxy %s',
    async (proxy) => {
      const { port, held } = await serve({ connectionsPerClient: 2, trustedProxies: [proxy] })
      const send = (client: string) => {
        const socket = open(port)
        socket.write(
          post('/held', { ...json, 'x-forwarded-for': client, 'content-length': 2, connection: 'close' }, '{}'),
        )
        return socket
      }
      const sockets = [send('2001:db8:1:1::1'), send('2001:db8:1:1::2')]
      await until(() => held.length === 2)
      const answer = await text(send('2001:db8:1:1::3'))
      expect(answer).toMatch(/^HTTP\/1\.1 503 /)
      expect(answer).toContain('"code":"overloaded"')
      send('2001:db8:2:1::1')
      await until(() => held.length === 3)
      sockets[0]?.resetAndDestroy()
      await until(() => held.includes('freed'))
      send('2001:db8:1:1::3')
      await until(() => held.length === 5)
    },
  )
})

describe('connections', () => {
  it('a request to an unknown route is answered without reading its body', async () => {
    const { port } = await serve()
    const socket = open(port)
    socket.write(post('/nowhere', { ...json, 'content-length': 100_000 }))
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    expect(chunk.toString()).toMatch(/^HTTP\/1\.1 404 /)
  })
})

describe('health routes', () => {
  it('/healthz is 200 regardless of dependencies', async () => {
    const answer = await ask('/healthz', { database: down })
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({ status: 200, body: { status: 'ok' } })
  })

  it('/readyz is 200 while all dependencies answer', async () => {
    const answer = await ask('/readyz', { database: up, chain: up, ffmpeg: up })
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({
      status: 'ok',
      checks: { database: 'ok', chain: 'ok', ffmpeg: 'ok' },
      warnings: [],
    })
  })

  it('/readyz is 503 and names the dependencies that are down, without details', async () => {
    const answer = await ask('/readyz', { database: down, chain: up, ffmpeg: down })
    expect(answer.statusCode).toBe(503)
    expect(answer.json()).toEqual({
      status: 'unavailable',
      checks: { database: 'down', chain: 'ok', ffmpeg: 'down' },
      warnings: [],
    })
    expect(answer.body).not.toContain('secret')
  })

  it('/readyz stays 200 and says `degraded` while a dependency that all processes share is down', async () => {
    const answer = await ask('/readyz', { database: up }, {}, { shared: { chain: down, queue: up } })
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({
      status: 200,
      body: { status: 'degraded', checks: { database: 'ok', chain: 'down', queue: 'ok' }, warnings: [] },
    })
  })

  it('/readyz reports a dependency whose check throws before it waits as down', async () => {
    const answer = await ask('/readyz', { database: throws, chain: up })
    expect(answer.json()).toMatchObject({ checks: { database: 'down', chain: 'ok' } })
  })

  it('/readyz reports a hanging dependency as down', async () => {
    const answer = await ask('/readyz', { database: up, chain: hangs })
    expect(answer.json()).toEqual({
      status: 'unavailable',
      checks: { database: 'ok', chain: 'down' },
      warnings: [],
    })
  })

  it('/readyz lists warnings and stays 200', async () => {
    const warnings = { settlement_gas_low: async () => true, clock_skew: async () => false }
    const answer = await ask('/readyz', { database: up }, warnings)
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({
      status: 200,
      body: { status: 'ok', checks: { database: 'ok' }, warnings: ['settlement_gas_low'] },
    })
  })

  it('/readyz omits a warning whose check fails or hangs', async () => {
    const warnings = {
      settlement_gas_low: () => Promise.reject(new Error('down')),
      clock_skew: () => hangs().then(() => true),
    }
    expect((await ask('/readyz', { database: up }, warnings)).json()).toMatchObject({ status: 'ok', warnings: [] })
  })

  it('/readyz repeats the last result of a warning that hangs, and does not wait for it', async () => {
    let [time, asked] = [0, 0]
    const warnings = {
      settlement_gas_low: () => ((asked += 1) === 1 ? Promise.resolve(true) : hangs().then(() => true)),
    }
    const { signal } = new AbortController()
    const app = await composeApp((composed) =>
      addHealthRoutes(composed, { required: { database: up }, shared: {} }, warnings, signal, () => time),
    )
    const warned = async () => (await app.inject('/readyz')).json<{ warnings: string[] }>().warnings
    expect(await warned()).toEqual(['settlement_gas_low'])
    time = 1000
    expect(await warned()).toEqual(['settlement_gas_low'])
    expect(asked).toBe(2)
  })

  it('/readyz runs one set of checks for a thousand requests at the same time', async () => {
    let [checks, warnings] = [0, 0]
    const app = await composeApp((composed) =>
      addHealthRoutes(
        composed,
        { required: { chain: async () => void (checks += 1) }, shared: {} },
        { clock_skew: async () => (warnings += 1) < 0 },
        new AbortController().signal,
        () => 0,
      ),
    )
    const answers = await Promise.all(Array.from({ length: 1000 }, () => app.inject('/readyz')))
    expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
    expect([checks, warnings]).toEqual([1, 1])
  })

  it('/readyz runs its checks once a second and reports a change after a second', async () => {
    let [time, isUp, checks] = [0, true, 0]
    const check = async () => {
      checks += 1
      if (!isUp) throw new Error('down')
    }
    const app = await composeApp((composed) =>
      addHealthRoutes(
        composed,
        { required: { chain: check }, shared: {} },
        {},
        new AbortController().signal,
        () => time,
      ),
    )
    const statusAt = async (milliseconds: number) => {
      time = milliseconds
      return (await app.inject('/readyz')).statusCode
    }
    expect([await statusAt(0), checks]).toEqual([200, 1])
    isUp = false
    expect([await statusAt(999), checks]).toEqual([200, 1])
    expect([await statusAt(1000), checks]).toEqual([503, 2])
    isUp = true
    expect([await statusAt(1999), checks]).toEqual([503, 2])
    expect([await statusAt(2000), checks]).toEqual([200, 3])
  })

  it('/readyz starts no second set of checks while one is in progress', async () => {
    let [time, checks] = [0, 0]
    const held = Promise.withResolvers<void>()
    const check = () => {
      checks += 1
      return held.promise
    }
    const app = await composeApp((composed) =>
      addHealthRoutes(
        composed,
        { required: { chain: check }, shared: {} },
        {},
        new AbortController().signal,
        () => time,
      ),
    )
    const first = app.inject('/readyz').then(({ statusCode }) => statusCode)
    await expect.poll(() => checks).toBe(1)
    time = 1500
    const second = app.inject('/readyz').then(({ statusCode }) => statusCode)
    held.resolve()
    expect([await first, await second, checks]).toEqual([200, 200, 1])
  })

  it('/readyz of a stopping process is 503 immediately, regardless of dependencies', async () => {
    const answer = await ask('/readyz', { database: hangs }, {}, { draining: AbortSignal.abort() })
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({
      status: 503,
      body: { status: 'draining', checks: {}, warnings: [] },
    })
    expect((await ask('/healthz', {}, {}, { draining: AbortSignal.abort() })).statusCode).toBe(200)
  })
})
