import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { createLoadGate, type RequestedWork, type Reservation } from '../../../api/admission/load-gate.ts'

const KILOBYTE = 1024
const MEGABYTE = 1024 * KILOBYTE
const HELD = { total: 4, perPayer: 4, perClient: 4, perJob: 4 }
/** Of the bodies, 14 MB are for small ones and 98 MB for large ones. */
const LIMITS = { bodyBytes: 112 * MEGABYTE, held: HELD, queueAgeMs: 60_000 }

type Changes = Partial<Omit<RequestedWork, 'body'>> & Partial<RequestedWork['body']>

function unpaid(changes: Changes = {}): RequestedWork {
  const { client, announcedBytes, maximumBytes, idempotencyKey, isComplete, ...work } = changes
  return {
    isPaying: false,
    hasPriority: false,
    decoderRetryAfterSeconds: null,
    queueAgeMs: async () => 0,
    hasJob: async () => false,
    isUninspected: async () => false,
    body: {
      client: client ?? ['192.0.2.1'],
      announcedBytes: announcedBytes === undefined ? 100 : announcedBytes,
      maximumBytes: maximumBytes ?? 40 * MEGABYTE,
      idempotencyKey: idempotencyKey ?? null,
      isComplete: isComplete ?? (() => false),
    },
    ...work,
  }
}

const paying = (changes: Changes = {}) => unpaid({ isPaying: true, hasPriority: true, ...changes })
const returning = (changes: Changes = {}) => paying({ hasJob: async () => true, ...changes })
const newPayer = (changes: Changes = {}) => unpaid({ isPaying: true, ...changes })

const waiting = (ms: number) => ({ queueAgeMs: async () => ms })

async function refusalOf(admitted: Promise<Reservation>): Promise<AppError> {
  const error = await admitted.then(
    () => new Error('was admitted'),
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(AppError)
  return error as AppError
}

async function expectOverloaded(admitted: Promise<Reservation>): Promise<AppError> {
  const error = await refusalOf(admitted)
  expect(error).toMatchObject({ code: 'overloaded', entry: { status: 503, payment: 'none', retry: 'same_request' } })
  expect(error.retryAfterSeconds).toBeGreaterThanOrEqual(1)
  expect(error.message).toContain('No payment was taken')
  return error
}

const overload = expect.objectContaining({ code: 'overloaded' })

/** Admits a body of this size and lets it arrive. */
async function receive(gate: ReturnType<typeof createLoadGate>, megabytes: number, changes: Changes = {}) {
  const reservation = await gate.admit(unpaid({ announcedBytes: megabytes * MEGABYTE, ...changes }))
  reservation.count(megabytes * MEGABYTE)
  return reservation
}

describe('request bodies', () => {
  it('reserves memory for what has arrived of a body, not for what it announces', async () => {
    const gate = createLoadGate(LIMITS)
    const reservation = await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE }))
    expect(gate.currentLoad().bodyBytes).toBeLessThan(100 * KILOBYTE)
    reservation.count(3 * MEGABYTE)
    expect(gate.currentLoad().bodyBytes).toBeGreaterThanOrEqual(3 * MEGABYTE)
    expect(gate.currentLoad().bodyBytes).toBeLessThan(5 * MEGABYTE)
    reservation.count(30 * MEGABYTE)
    expect(gate.currentLoad().bodyBytes).toBeLessThan(30 * MEGABYTE + 100 * KILOBYTE)
  })
  it('accepts other clients while one announces bodies without sending them', async () => {
    const gate = createLoadGate(LIMITS)
    const attackers = Array.from({ length: 100 }, (_, index) => `198.51.100.${index}`)
    for (const client of attackers) await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE, client: [client] }))
    await receive(gate, 30)
  })
  it('lets a lone client use three quarters of its share, and leaves the rest to the next client', async () => {
    const gate = createLoadGate(LIMITS)
    const [client, next] = [['192.0.2.1'], ['192.0.2.2']] as const
    await receive(gate, 35, { client })
    await receive(gate, 20, { client })
    await expectOverloaded(gate.admit(unpaid({ client, announcedBytes: MEGABYTE })))
    await receive(gate, 12, { client: next })
    await expectOverloaded(receive(gate, 5, { client: next }))
  })
  it('keeps memory for further clients, however many already fill it', async () => {
    const gate = createLoadGate(LIMITS)
    for (let round = 0; round < 100; round += 1)
      for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
        await receive(gate, 1, { client: [client] }).catch(() => undefined)
    await receive(gate, 5, { client: ['192.0.2.9'] })
  })
  it('limits the networks of an IPv6 site together', async () => {
    const gate = createLoadGate(LIMITS)
    await receive(gate, 35, { client: ['2001:db8:1:1::/64', '2001:db8:1::/48'] })
    await receive(gate, 20, { client: ['2001:db8:1:2::/64', '2001:db8:1::/48'] })
    await expectOverloaded(receive(gate, 1, { client: ['2001:db8:1:3::/64', '2001:db8:1::/48'] }))
    await receive(gate, 1, { client: ['2001:db8:2:1::/64', '2001:db8:2::/48'] })
  })
  it('admits no more large bodies of one client than can complete', async () => {
    const gate = createLoadGate(LIMITS)
    const uploads = await Promise.allSettled(
      Array.from({ length: 64 }, () => gate.admit(unpaid({ announcedBytes: 12 * MEGABYTE }))),
    )
    const admitted = uploads.flatMap((upload) => (upload.status === 'fulfilled' ? [upload.value] : []))
    expect(admitted).toHaveLength(4)
    for (let arrived = MEGABYTE; arrived <= 12 * MEGABYTE; arrived += MEGABYTE)
      for (const upload of admitted) upload.count(arrived)
  })
  it('keeps a quarter of the memory free of callers who have not paid before', async () => {
    const gate = createLoadGate(LIMITS)
    for (const client of ['192.0.2.1', '192.0.2.2']) await receive(gate, 30, { client: [client] })
    await expectOverloaded(receive(gate, 12, { client: ['192.0.2.3'] }))
    await expectOverloaded(receive(gate, 12, { client: ['192.0.2.3'], isPaying: true }))
    await receive(gate, 12, { client: ['192.0.2.3'], isPaying: true, hasPriority: true })
  })
  it('admits small bodies while large ones use all of their memory', async () => {
    const gate = createLoadGate(LIMITS)
    const clients = Array.from({ length: 30 }, (_, index) => [`198.51.100.${index}`])
    for (const client of clients) await receive(gate, 20, { client, hasPriority: true }).catch(() => undefined)
    await expectOverloaded(receive(gate, 30, { client: ['192.0.2.1'] }))
    await gate.admit(unpaid({ announcedBytes: 85, client: ['192.0.2.1'] }))
    const chunked = await gate.admit(unpaid({ announcedBytes: null, client: ['192.0.2.1'] }))
    chunked.count(60 * KILOBYTE)
    expect(() => chunked.count(30 * MEGABYTE)).toThrow(overload)
  })
  it('frees the memory of a body as soon as the rest of it is refused', async () => {
    const gate = createLoadGate(LIMITS)
    await receive(gate, 40, { client: ['192.0.2.2'] })
    await receive(gate, 14, { client: ['192.0.2.3'] })
    const { bodyBytes } = gate.currentLoad()
    const chunked = await gate.admit(unpaid({ announcedBytes: null }))
    chunked.count(6 * MEGABYTE)
    expect(() => chunked.count(16 * MEGABYTE)).toThrow(overload)
    expect(gate.currentLoad().bodyBytes).toBe(bodyBytes)
    chunked.release()
    expect(gate.currentLoad().bodyBytes).toBe(bodyBytes)
  })
  it('receives one large body for each key at a time', async () => {
    const gate = createLoadGate(LIMITS)
    const upload = { announcedBytes: MEGABYTE, idempotencyKey: 'order-7' }
    const first = await gate.admit(unpaid(upload))
    await expectOverloaded(gate.admit(unpaid(upload)))
    await gate.admit(unpaid({ ...upload, announcedBytes: 100 }))
    // A stranger who knows the key cannot block it.
    await gate.admit(unpaid({ ...upload, client: ['192.0.2.2'] }))
    first.releaseBody()
    await gate.admit(unpaid(upload))
  })
  it('frees all bytes of released bodies', async () => {
    const gate = createLoadGate(LIMITS)
    const reservations = [await receive(gate, 20), await receive(gate, 3), await gate.admit(paying())]
    for (const reservation of reservations) reservation.release()
    expect(gate.currentLoad().bodyBytes).toBe(0)
  })
  it('admits a single body of any size, so that a small limit never blocks every caller permanently', async () => {
    const gate = createLoadGate({ ...LIMITS, bodyBytes: 10 })
    await receive(gate, 35)
    await expectOverloaded(gate.admit(paying({ announcedBytes: 2 * MEGABYTE })))
  })
})

async function startBody(changes: Changes) {
  let nowMs = 0
  let error: AppError | null = null
  const gate = createLoadGate(LIMITS, () => nowMs)
  const body = await gate.admit(unpaid(changes))
  body.onTooSlow((given) => {
    error = given
  })
  return {
    count: body.count,
    /** Lets time pass, with a judgment each second. */
    wait: (seconds: number) => {
      for (let passed = 0; passed < seconds; passed += 1) {
        nowMs += 1000
        gate.judgeSpeeds()
      }
    },
    /** Lets time pass in a process that does not run. */
    stall: (seconds: number) => {
      nowMs += seconds * 1000
      gate.judgeSpeeds()
    },
    error: () => error,
  }
}

describe('slow bodies', () => {
  it('ends a small body that has not arrived after 15 seconds', async () => {
    const body = await startBody({ announcedBytes: 85 })
    body.count(80)
    body.wait(15)
    expect(body.error()).toBeNull()
    body.wait(1)
    expect(body.error()).toMatchObject({ code: 'request_timeout', entry: { status: 408, retry: 'same_request' } })
  })
  it('ends a large body that arrives at less than 64 KB per second on average', async () => {
    const body = await startBody({ announcedBytes: 25 * MEGABYTE })
    body.count(MEGABYTE)
    body.wait(30)
    expect(body.error()).toBeNull()
    body.wait(3)
    expect(body.error()).toMatchObject({ code: 'request_timeout' })
  })
  it('never ends a large body that keeps arriving fast enough', async () => {
    const body = await startBody({ announcedBytes: 25 * MEGABYTE })
    for (let second = 1; second <= 239; second += 1) {
      body.count(second * 70 * KILOBYTE)
      body.wait(1)
    }
    expect(body.error()).toBeNull()
  })
  it('does not judge a body that has arrived', async () => {
    const announced = await startBody({ announcedBytes: 85 })
    announced.count(85)
    const chunked = await startBody({ announcedBytes: null, isComplete: () => true })
    for (const body of [announced, chunked]) body.wait(100)
    expect([announced.error(), chunked.error()]).toEqual([null, null])
  })
  it('does not count time in which the process did not run against a body', async () => {
    const body = await startBody({ announcedBytes: 85 })
    body.stall(60)
    expect(body.error()).toBeNull()
  })
})

const hold = (gate: ReturnType<typeof createLoadGate>, jobId: string, payer = '0x1', client = ['192.0.2.1']) =>
  gate.hold({ jobId, payer, client })

describe('held connections', () => {
  it('takes no place for a request that does not wait for a job', async () => {
    const gate = createLoadGate(LIMITS)
    await Promise.all(Array.from({ length: 40 }, () => gate.admit(paying({ announcedBytes: 26_000 }))))
    expect(gate.currentLoad().heldConnections).toBe(0)
    expect(hold(gate, 'job')).toBeTypeOf('function')
  })
  it('refuses first payments when three quarters of the places are taken, known payers when all are, and no quote', async () => {
    const gate = createLoadGate(LIMITS)
    for (const job of ['1', '2', '3']) hold(gate, job)
    await expectOverloaded(gate.admit(newPayer()))
    await gate.admit(paying())
    hold(gate, '4')
    await gate.admit(unpaid())
    await expectOverloaded(gate.admit(paying()))
    await gate.admit(returning())
    expect(hold(gate, '5')).toBeNull()
  })
  it('limits the waiting callers of a job, of a payer and of a client', () => {
    const gate = createLoadGate({ ...LIMITS, held: { total: 100, perJob: 1, perPayer: 2, perClient: 3 } })
    const places = [hold(gate, '1'), hold(gate, '1'), hold(gate, '2'), hold(gate, '3'), hold(gate, '4', '0x2')]
    expect(places.map((place) => place !== null)).toEqual([true, false, true, false, true])
    expect(hold(gate, '5', '0x3')).toBeNull()
    expect(hold(gate, '5', '0x3', ['192.0.2.2'])).not.toBeNull()
    places[0]?.()
    expect(hold(gate, '1')).not.toBeNull()
    expect(gate.currentLoad().heldConnections).toBe(4)
  })
})

describe('queue age', () => {
  it('rejects new work while the queue is old, known payers last, and admits callers with an accepted job', async () => {
    const gate = createLoadGate(LIMITS)
    await gate.admit(unpaid(waiting(45_000)))
    const refusal = await expectOverloaded(gate.admit(unpaid(waiting(50_000))))
    expect(refusal.retryAfterSeconds).toBe(25)
    await expectOverloaded(gate.admit(newPayer(waiting(50_000))))
    await gate.admit(paying(waiting(50_000)))
    await expectOverloaded(gate.admit(paying(waiting(61_000))))
    await gate.admit(returning(waiting(61_000)))
    expect((await refusalOf(gate.admit(paying(waiting(9_000_000))))).retryAfterSeconds).toBe(60)
  })
})

describe('decoders', () => {
  it('rejects a paid upload that was priced by a description while all decoders are busy, before it is read', async () => {
    const gate = createLoadGate(LIMITS)
    const described = { decoderRetryAfterSeconds: 7, isUninspected: async () => true }
    expect(await expectOverloaded(gate.admit(paying(described)))).toMatchObject({ retryAfterSeconds: 7 })
    await gate.admit(returning(described))
    await gate.admit(paying({ ...described, decoderRetryAfterSeconds: null }))
  })

  it('gives no challenge for work that its endpoint would not admit', async () => {
    const gate = createLoadGate(LIMITS)
    const free = { decoderRetryAfterSeconds: null, queueAgeMs: async () => 0 }
    await gate.requireRoom(free)
    await expect(gate.requireRoom({ ...free, decoderRetryAfterSeconds: 7 })).rejects.toEqual(overload)
    await expect(gate.requireRoom({ ...free, ...waiting(45_001) })).rejects.toEqual(overload)
    await gate.requireRoom({ ...free, ...waiting(45_000) })
  })

  it('rejects an unpaid upload while all decoders are busy, and admits a signed retry', async () => {
    const gate = createLoadGate(LIMITS)
    const busy = { decoderRetryAfterSeconds: 7 }
    expect((await expectOverloaded(gate.admit(unpaid(busy)))).retryAfterSeconds).toBe(7)
    await gate.admit(newPayer(busy))
  })
})

describe('work that was read from the body of another request', () => {
  it('is refused for the same reasons as at its endpoint, and takes no memory', async () => {
    const gate = createLoadGate(LIMITS)
    await gate.admitRead(unpaid())
    expect(gate.currentLoad().bodyBytes).toBe(0)
    await expect(gate.admitRead(unpaid(waiting(LIMITS.queueAgeMs)))).rejects.toEqual(overload)
    await expect(gate.admitRead(unpaid({ decoderRetryAfterSeconds: 3 }))).rejects.toEqual(overload)
    await gate.admitRead(paying({ decoderRetryAfterSeconds: 3 }))
    await expect(gate.admitRead(paying(waiting(LIMITS.queueAgeMs + 1)))).rejects.toEqual(overload)
    await gate.admitRead(returning(waiting(LIMITS.queueAgeMs + 1)))
  })
})

describe('a reservation', () => {
  it('counts a reservation until every holder has released it', async () => {
    const gate = createLoadGate(LIMITS)
    const reservation = await receive(gate, 1)
    reservation.retain()
    reservation.release()
    expect(gate.currentLoad().bodyBytes).toBeGreaterThan(MEGABYTE)
    reservation.release()
    expect(gate.currentLoad()).toEqual({ bodyBytes: 0, heldConnections: 0 })
  })
  it('makes no reservation for a rejected request', async () => {
    const gate = createLoadGate(LIMITS)
    await expectOverloaded(gate.admit(paying({ queueAgeMs: async () => 99_000 })))
    expect(gate.currentLoad()).toEqual({ bodyBytes: 0, heldConnections: 0 })
  })
})
