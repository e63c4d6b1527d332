import type { FastifyRequest } from 'fastify'
import { privateKeyToAccount } from 'viem/accounts'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createPermit2Hash } from '#shared/chain/signing/permit2-message.ts'
import { recoverSigner } from '#shared/chain/signing/secp256k1.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import { createQueueAgeReader } from '../../api/limits/admission.ts'
import { connectionLimits } from '../../api/limits/connection-limits.ts'
import { createLoadGate, type RequestedWork, type Reservation } from '../../api/limits/load-gate.ts'
import { createPayingCallers } from '../../api/limits/paying-callers.ts'
import { createRateBuckets } from '../../api/limits/rate-buckets.ts'
import { signWitness } from '../support/payer/sign-authorization.ts'

const ignore = () => undefined
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
const hold = (gate: ReturnType<typeof createLoadGate>, jobId: string, payer = '0x1', client = ['192.0.2.1']) =>
  gate.hold({ jobId, payer, client })
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
function readerOver(readQueueAges: () => Promise<ReadonlyMap<string, number>>) {
  const clock = { ms: 0 }
  return { clock, queueAge: createQueueAgeReader({ readQueueAges }, silent, () => clock.ms) }
}
const SECRETS = ['a secret of the tests that is long enough'] as const
const PAYER = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const OTHER = privateKeyToAccount(`0x${'22'.repeat(32)}`)
const address = (digit: string) => `0x${digit.repeat(40)}` as const
const permit2Hash = createPermit2Hash(8453)
const terms = {
  token: address('1'),
  amount: 5034n,
  spender: address('2'),
  nonce: 7n,
  deadline: 4_000_000_000n,
  to: address('3'),
  facilitator: address('4'),
  validAfter: 0n,
}
const challenge = (idempotencyKey: string) =>
  sealChallengeToken(
    { idempotencyKey, requestDigest: 'd', quotedMaximum: atomicAmount(5034n), expiresAt: new Date(0) },
    SECRETS,
  )

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

describe('held connections', () => {
  it('takes no place for a request that does not wait for a job', async () => {
    const gate = createLoadGate(LIMITS)
    await Promise.all(Array.from({ length: 40 }, () => gate.admit(paying({ announcedBytes: 26_000 }))))
    expect(gate.currentLoad().heldConnections).toBe(0)
    expect(hold(gate, 'job')).toBeTypeOf('function')
  })
  it('refuses first payments when three quarters of the slots are taken, known payers when all are, and no quote', async () => {
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
    const slots = [hold(gate, '1'), hold(gate, '1'), hold(gate, '2'), hold(gate, '3'), hold(gate, '4', '0x2')]
    expect(slots.map((place) => place !== null)).toEqual([true, false, true, false, true])
    expect(hold(gate, '5', '0x3')).toBeNull()
    expect(hold(gate, '5', '0x3', ['192.0.2.2'])).not.toBeNull()
    slots[0]?.()
    expect(hold(gate, '1')).not.toBeNull()
    expect(gate.currentLoad().heldConnections).toBe(4)
  })
})

describe('open connections', () => {
  it.each([
    [1, { connections: 20_000, connectionsPerClient: 4000 }],
    [5000, { connections: 20_000, connectionsPerClient: 4000 }],
    [6001, { connections: 24_004, connectionsPerClient: 4801 }],
  ])(
    'are four times the %d callers that are held, at least 20,000, and a fifth of them of one client',
    (held, limits) => {
      expect(connectionLimits(held)).toEqual(limits)
    },
  )
})

describe('rates of clients', () => {
  it('refuses nobody because the machine’s clock was set back', () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const buckets = createRateBuckets({ shared: null, logger: { info: ignore, warn: ignore, error: ignore } })
    buckets.take('unpaid', '203.0.113.1', 60)
    vi.setSystemTime(Date.now() - 3_600_000)
    expect(buckets.take('unpaid', '203.0.113.1', 60)).toEqual({
      remaining: 58,
      fullInSeconds: 2,
      retryAfterSeconds: null,
    })
  })
})

describe('the age of a queue', () => {
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
    await gate.requireCapacity(free)
    await expect(gate.requireCapacity({ ...free, decoderRetryAfterSeconds: 7 })).rejects.toEqual(overload)
    await expect(gate.requireCapacity({ ...free, ...waiting(45_001) })).rejects.toEqual(overload)
    await gate.requireCapacity({ ...free, ...waiting(45_000) })
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

describe('queue age', () => {
  it('reads queue ages from the ledger at most once a second, however many requests need them', async () => {
    let readings = 0
    const { clock, queueAge } = readerOver(async () => new Map([['createSpeech', ++readings]]))
    expect(await Promise.all([1, 2, 3].map(() => queueAge('createSpeech')))).toEqual([1, 1, 1])
    clock.ms = 999
    expect(await queueAge('createSpeech')).toBe(1)
    clock.ms = 1000
    expect(await queueAge('createSpeech')).toBe(2)
    expect(readings).toBe(2)
  })

  it('reports a queue age of 0 for an operation without waiting jobs', async () => {
    const { queueAge } = readerOver(async () => new Map([['createSpeech', 5000]]))
    expect(await queueAge('createMessage')).toBe(0)
  })

  it('reports a queue age of 0 while the ledger cannot be read, and the real one afterwards', async () => {
    let isDown = true
    const { clock, queueAge } = readerOver(async () => {
      if (isDown) throw new Error('down')
      return new Map([['createSpeech', 5000]])
    })
    expect(await queueAge('createSpeech')).toBe(0)
    isDown = false
    clock.ms = 1000
    expect(await queueAge('createSpeech')).toBe(5000)
  })
})

describe('which requests count as paying', () => {
  let signedByChecks = 0
  const isSignedByKey = (authorization: Authorization) => {
    signedByChecks += 1
    return recoverSigner(permit2Hash(authorization), authorization.signature) === authorization.payer
  }
  let signature: string
  let otherSignature: string
  beforeAll(async () => {
    signature = await signWitness(PAYER, terms)
    otherSignature = await signWitness(OTHER, terms)
  })
  /** Returns a request with a payment of PAYER for the challenge of its key, with changes. */
  function requestWith(changes: { token?: unknown; signature?: string; nonce?: string; header?: string } = {}) {
    const payment = {
      x402Version: 2,
      accepted: {
        scheme: 'upto',
        network: 'eip155:8453',
        amount: '5034',
        asset: terms.token,
        payTo: terms.to,
        maxTimeoutSeconds: 900,
        extra: { challenge: 'token' in changes ? changes.token : challenge('key') },
      },
      payload: {
        signature: changes.signature ?? signature,
        permit2Authorization: {
          from: PAYER.address,
          permitted: { token: terms.token, amount: '5034' },
          spender: terms.spender,
          nonce: changes.nonce ?? '7',
          deadline: '4000000000',
          witness: { to: terms.to, facilitator: terms.facilitator, validAfter: '0' },
        },
      },
    }
    const header = changes.header ?? Buffer.from(JSON.stringify(payment)).toString('base64')
    return { headers: { 'x-idempotency-key': 'key', 'payment-signature': header } } as unknown as FastifyRequest
  }
  const callers = (known: boolean, refused = false) =>
    createPayingCallers({
      challengeSecrets: SECRETS,
      isSignedByKey,
      isRefused: () => refused,
      isKnown: (payer) => known && payer === PAYER.address.toLowerCase(),
    })
  const judge = (request: FastifyRequest, { known = true, refused = false } = {}) => {
    const { isPaying, isKnownPayer } = callers(known, refused)
    return [isPaying(request), isKnownPayer(request)]
  }

  it('counts a payment that its payer signed for a challenge of this service and this key', () => {
    expect(judge(requestWith())).toEqual([true, true])
    expect(judge(requestWith(), { known: false })).toEqual([true, false])
  })

  it('does not count a genuine challenge with a signature that is not of the named payer', () => {
    for (const forged of [otherSignature, `0x${'ab'.repeat(65)}`, '0x00', `${signature}00`])
      expect(judge(requestWith({ signature: forged }))).toEqual([false, false])
    expect(judge(requestWith({ nonce: '8' }))).toEqual([false, false])
  })

  it('does not count a genuine signature with a forged challenge, or one of another key', () => {
    for (const token of [undefined, 5, 'forged', challenge('other')])
      expect(judge(requestWith({ token }))).toEqual([false, false])
  })

  it('does not count junk, or no payment at all', () => {
    expect(judge(requestWith({ header: 'junk' }))).toEqual([false, false])
    expect(judge({ headers: { 'x-idempotency-key': 'key' } } as unknown as FastifyRequest)).toEqual([false, false])
  })

  it('does not count a payment that the chain recently refused', () => {
    expect(judge(requestWith(), { refused: true })).toEqual([false, false])
  })

  it('recovers the signer once per request', () => {
    const { isPaying, isKnownPayer } = callers(true)
    const request = requestWith()
    const before = signedByChecks
    expect([isPaying(request), isKnownPayer(request), isPaying(request)]).toEqual([true, true, true])
    expect(signedByChecks - before).toBe(1)
  })
})
