import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { createLoadGate, type RequestedWork, type Reservation } from '../../../api/admission/load-gate.ts'

const MEGABYTE = 1024 * 1024
const LIMITS = { bodyBytes: 100 * MEGABYTE, heldConnections: 4, queueAgeMs: 60_000 }

function unpaid(changes: Partial<RequestedWork> = {}): RequestedWork {
  return {
    isPaying: false,
    announcedBytes: 0,
    decoderRetryAfterSeconds: null,
    queueAgeMs: async () => 0,
    hasJob: async () => false,
    ...changes,
  }
}

const paying = (changes: Partial<RequestedWork> = {}) => unpaid({ isPaying: true, ...changes })
const returning = (changes: Partial<RequestedWork> = {}) => paying({ hasJob: async () => true, ...changes })

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

describe('request bodies', () => {
  it('admits bodies by their announced length up to the limit, and more once they are released', async () => {
    const gate = createLoadGate(LIMITS)
    const first = await gate.admit(paying({ announcedBytes: 60 * MEGABYTE }))
    await expectOverloaded(gate.admit(paying({ announcedBytes: 40 * MEGABYTE })))
    first.releaseBody()
    await gate.admit(paying({ announcedBytes: 40 * MEGABYTE }))
  })
  it('keeps a quarter of the body limit free of unpaid requests', async () => {
    const gate = createLoadGate(LIMITS)
    await gate.admit(unpaid({ announcedBytes: 70 * MEGABYTE }))
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE })))
    await gate.admit(paying({ announcedBytes: 10 * MEGABYTE }))
  })
  it('rejects a body without an announced length once it exceeds the remaining limit', async () => {
    const gate = createLoadGate(LIMITS)
    await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE }))
    const chunked = await gate.admit(unpaid())
    chunked.count(10 * MEGABYTE)
    expect(() => chunked.count(20 * MEGABYTE)).toThrow(expect.objectContaining({ code: 'overloaded' }))
    chunked.release()
    await gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE }))
  })
  it('counts announced bytes once, not again as they arrive', async () => {
    const gate = createLoadGate(LIMITS)
    const reservation = await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE }))
    const { bodyBytes } = gate.currentLoad()
    reservation.count(30 * MEGABYTE)
    expect(gate.currentLoad().bodyBytes).toBe(bodyBytes)
  })
  it('reserves only the bytes that have arrived for a body that is too slow to complete in time', async () => {
    let now = 0
    const gate = createLoadGate(LIMITS, () => now)
    const announced = { announcedBytes: 35 * MEGABYTE }
    const [slow, steady] = [await gate.admit(unpaid(announced)), await gate.admit(unpaid(announced))]
    now = 9_000
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE })))
    now = 60_000
    slow.count(MEGABYTE)
    steady.count(10 * MEGABYTE)
    await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE }))
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE })))
    // The slow body continues as far as there is room.
    slow.count(5 * MEGABYTE)
    expect(() => slow.count(35 * MEGABYTE)).toThrow(expect.objectContaining({ code: 'overloaded' }))
    steady.count(35 * MEGABYTE)
  })
  it('frees all bytes of released bodies, slow or not', async () => {
    let now = 0
    const gate = createLoadGate(LIMITS, () => now)
    const reservations = [await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE })), await gate.admit(paying())]
    now = 100_000
    const later = await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE }))
    for (const reservation of [...reservations, later]) reservation.release()
    expect(gate.currentLoad().bodyBytes).toBe(0)
  })
  it('admits a single body of any size, so that a small limit never blocks every caller permanently', async () => {
    const gate = createLoadGate({ ...LIMITS, bodyBytes: 10 })
    await gate.admit(unpaid({ announcedBytes: 40 * MEGABYTE }))
    await expectOverloaded(gate.admit(paying()))
  })
})

describe('held connections', () => {
  it('limits held connections, and keeps the last quarter free of unpaid requests', async () => {
    const gate = createLoadGate(LIMITS)
    await Promise.all([paying(), paying(), paying()].map((work) => gate.admit(work)))
    await expectOverloaded(gate.admit(unpaid()))
    await gate.admit(paying())
    await expectOverloaded(gate.admit(paying()))
  })
  it('never exceeds the connection limit under concurrent requests', async () => {
    const gate = createLoadGate(LIMITS)
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => gate.admit(paying())))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(4)
    expect(gate.currentLoad().heldConnections).toBe(4)
  })
  it('admits a returning payer without holding the connection when all connections are taken', async () => {
    const gate = createLoadGate(LIMITS)
    const reservations = await Promise.all([paying(), paying(), paying(), paying()].map((work) => gate.admit(work)))
    const replay = await gate.admit(returning())
    expect(replay.mayBeHeld).toBe(false)
    reservations[0]?.release()
    expect((await gate.admit(returning())).mayBeHeld).toBe(true)
  })
})

describe('queue age', () => {
  it('rejects new work while the queue is old, unpaid before paid, and admits returning payers', async () => {
    const gate = createLoadGate(LIMITS)
    await gate.admit(unpaid(waiting(45_000)))
    const refusal = await expectOverloaded(gate.admit(unpaid(waiting(50_000))))
    expect(refusal.retryAfterSeconds).toBe(25)
    await gate.admit(paying(waiting(50_000)))
    await expectOverloaded(gate.admit(paying(waiting(61_000))))
    expect((await gate.admit(returning(waiting(61_000)))).mayBeHeld).toBe(true)
    expect((await refusalOf(gate.admit(paying(waiting(9_000_000))))).retryAfterSeconds).toBe(60)
  })
})

describe('decoders', () => {
  it('rejects an unpaid upload while all decoders are busy, and admits a signed retry', async () => {
    const gate = createLoadGate(LIMITS)
    const busy = { decoderRetryAfterSeconds: 7 }
    expect((await expectOverloaded(gate.admit(unpaid(busy)))).retryAfterSeconds).toBe(7)
    await gate.admit(paying(busy))
  })
})

describe('a reservation', () => {
  it('counts a reservation until every holder has released it', async () => {
    const gate = createLoadGate(LIMITS)
    const reservation = await gate.admit(paying({ announcedBytes: MEGABYTE }))
    reservation.retain()
    reservation.release()
    expect(gate.currentLoad().heldConnections).toBe(1)
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
