import { describe, expect, it } from 'vitest'
import { type AskedWork, createLoadGate, type Lease } from '../../../api/admission/load-gate.ts'
import { AppError } from '../../../shared/errors/app-error.ts'

const MEGABYTE = 1024 * 1024
const limits = { bodyBytes: 100 * MEGABYTE, heldConnections: 4, queueAgeMs: 60_000 }

function unpaid(changes: Partial<AskedWork> = {}): AskedWork {
  return {
    isPaying: false,
    announcedBytes: 0,
    decoderRetryAfterSeconds: null,
    queueAgeMs: async () => 0,
    hasJob: async () => false,
    ...changes,
  }
}

const paying = (changes: Partial<AskedWork> = {}) => unpaid({ isPaying: true, ...changes })
const returning = (changes: Partial<AskedWork> = {}) => paying({ hasJob: async () => true, ...changes })

const waiting = (ms: number) => ({ queueAgeMs: async () => ms })

async function refusalOf(admitted: Promise<Lease>): Promise<AppError> {
  const error = await admitted.then(
    () => new Error('was admitted'),
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(AppError)
  return error as AppError
}

async function expectOverloaded(admitted: Promise<Lease>): Promise<AppError> {
  const error = await refusalOf(admitted)
  expect(error).toMatchObject({ code: 'overloaded', entry: { status: 503, payment: 'none', retry: 'same_request' } })
  expect(error.retryAfterSeconds).toBeGreaterThanOrEqual(1)
  expect(error.message).toContain('No payment was taken')
  return error
}

describe('bodies', () => {
  it('are let in by their announced length until the limit is reached, and again when they are gone', async () => {
    const gate = createLoadGate(limits)
    const first = await gate.admit(paying({ announcedBytes: 60 * MEGABYTE }))
    await expectOverloaded(gate.admit(paying({ announcedBytes: 40 * MEGABYTE })))
    first.releaseBody()
    await gate.admit(paying({ announcedBytes: 40 * MEGABYTE }))
  })
  it('of unpaid requests leave a quarter of the limit to paying callers', async () => {
    const gate = createLoadGate(limits)
    await gate.admit(unpaid({ announcedBytes: 70 * MEGABYTE }))
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE })))
    await gate.admit(paying({ announcedBytes: 10 * MEGABYTE }))
  })
  it('that did not tell their length are refused when they pass what is left', async () => {
    const gate = createLoadGate(limits)
    await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE }))
    const chunked = await gate.admit(unpaid())
    chunked.count(10 * MEGABYTE)
    expect(() => chunked.count(20 * MEGABYTE)).toThrow(expect.objectContaining({ code: 'overloaded' }))
    chunked.release()
    await gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE }))
  })
  it('count once: what was announced does not count again as it arrives', async () => {
    const gate = createLoadGate(limits)
    const lease = await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE }))
    const { bodyBytes } = gate.present()
    lease.count(30 * MEGABYTE)
    expect(gate.present().bodyBytes).toBe(bodyBytes)
  })
  it('that come too slowly to be whole in time keep no room from others beyond what has arrived', async () => {
    let now = 0
    const gate = createLoadGate(limits, () => now)
    const announced = { announcedBytes: 35 * MEGABYTE }
    const [slow, steady] = [await gate.admit(unpaid(announced)), await gate.admit(unpaid(announced))]
    now = 9_000
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 10 * MEGABYTE })))
    now = 60_000
    slow.count(MEGABYTE)
    steady.count(10 * MEGABYTE)
    await gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE }))
    await expectOverloaded(gate.admit(unpaid({ announcedBytes: 30 * MEGABYTE })))
    // The slow one goes on as far as there is room.
    slow.count(5 * MEGABYTE)
    expect(() => slow.count(35 * MEGABYTE)).toThrow(expect.objectContaining({ code: 'overloaded' }))
    steady.count(35 * MEGABYTE)
  })
  it('leave nothing behind when they are gone, slow or not', async () => {
    let now = 0
    const gate = createLoadGate(limits, () => now)
    const leases = [await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE })), await gate.admit(paying())]
    now = 100_000
    const later = await gate.admit(unpaid({ announcedBytes: 60 * MEGABYTE }))
    for (const lease of [...leases, later]) lease.release()
    expect(gate.present().bodyBytes).toBe(0)
  })
  it('alone always fit, so that a small limit shuts nobody out for good', async () => {
    const gate = createLoadGate({ ...limits, bodyBytes: 10 })
    await gate.admit(unpaid({ announcedBytes: 40 * MEGABYTE }))
    await expectOverloaded(gate.admit(paying()))
  })
})

describe('held connections', () => {
  it('are bounded, and unpaid requests are refused before the last quarter is taken', async () => {
    const gate = createLoadGate(limits)
    await Promise.all([paying(), paying(), paying()].map((work) => gate.admit(work)))
    await expectOverloaded(gate.admit(unpaid()))
    await gate.admit(paying())
    await expectOverloaded(gate.admit(paying()))
  })
  it('never pass the bound, however many ask at the same moment', async () => {
    const gate = createLoadGate(limits)
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => gate.admit(paying())))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(4)
    expect(gate.present().heldConnections).toBe(4)
  })
  it('that are all taken do not keep a caller from the result of a job that he paid for: he is answered at once', async () => {
    const gate = createLoadGate(limits)
    const leases = await Promise.all([paying(), paying(), paying(), paying()].map((work) => gate.admit(work)))
    const replay = await gate.admit(returning())
    expect(replay.mayBeHeld).toBe(false)
    leases[0]?.release()
    expect((await gate.admit(returning())).mayBeHeld).toBe(true)
  })
})

describe('old work in the queue', () => {
  it('keeps new work out, unpaid before paid, and not those whose work it is', async () => {
    const gate = createLoadGate(limits)
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
  it('that are all busy refuse an unpaid upload before it is sent, and not a signed retry', async () => {
    const gate = createLoadGate(limits)
    const busy = { decoderRetryAfterSeconds: 7 }
    expect((await expectOverloaded(gate.admit(unpaid(busy)))).retryAfterSeconds).toBe(7)
    await gate.admit(paying(busy))
  })
})

describe('a lease', () => {
  it('counts until everyone who retained it has released it', async () => {
    const gate = createLoadGate(limits)
    const lease = await gate.admit(paying({ announcedBytes: MEGABYTE }))
    lease.retain()
    lease.release()
    expect(gate.present().heldConnections).toBe(1)
    expect(gate.present().bodyBytes).toBeGreaterThan(MEGABYTE)
    lease.release()
    expect(gate.present()).toEqual({ bodyBytes: 0, heldConnections: 0 })
  })
  it('is not taken by refused requests', async () => {
    const gate = createLoadGate(limits)
    await expectOverloaded(gate.admit(paying({ queueAgeMs: async () => 99_000 })))
    expect(gate.present()).toEqual({ bodyBytes: 0, heldConnections: 0 })
  })
})
