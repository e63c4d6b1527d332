import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { acceptInTurn } from '../../../api/paid-request/job/accept-in-turn.ts'
import { createPermitTurns, type PermitTurns } from '../../../api/paid-request/payment/permit-turns.ts'

const PAYER = '0x00000000000000000000000000000000000000aa'
const PERMIT = { from: PAYER } as never
/** Ends a turn in these tests only where nobody ends it. */
const SHORT_TURN_MS = 5
const NEVER_MS = 600_000

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
const call = (idempotencyKey: string, payer = PAYER) => ({ payer, idempotencyKey })
const used = () => Promise.reject(new AppError('permit_already_used'))
const poor = () => Promise.reject(new AppError('insufficient_funds'))
const forever = () => new AbortController().signal
/** Lets everything run that does not wait for a timer. */
const settled = () => delay(1)

/** The payer's open job, as the ledger and the awaiter of outcomes see it. */
let open: { readonly jobId: string; readonly finish: () => void } | null
let answers: string[]

function openJob(jobId: string): void {
  const finished = Promise.withResolvers<void>()
  open = {
    jobId,
    finish: () => {
      open = null
      finished.resolve()
    },
  }
  waits.set(jobId, finished.promise)
}
const waits = new Map<string, Promise<void>>()

const stops = (signal: AbortSignal) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))

function turnsOf(turnMs: number): PermitTurns {
  return createPermitTurns(
    {
      store: { findOpenJob: async () => open?.jobId ?? null },
      outcomes: {
        wait: async (jobId, signal) => {
          await Promise.race([waits.get(jobId), stops(signal)])
          return { state: 'failed', failureCode: 'internal_error' }
        },
      },
      logger: silent,
    },
    turnMs,
  )
}

/** Waits in the background and notes the answer. */
function wait(turns: PermitTurns, idempotencyKey: string, signal: AbortSignal = forever()): void {
  void turns.wait(call(idempotencyKey), signal).then((hasTurn) => answers.push(`${idempotencyKey} ${hasTurn}`))
}

/** Lets calls wait for the payer's first job, which then finishes: the first of them has the turn. */
async function turnsAfterFirst(...idempotencyKeys: readonly string[]): Promise<PermitTurns> {
  const turns = turnsOf(NEVER_MS)
  openJob('first')
  for (const idempotencyKey of idempotencyKeys) wait(turns, idempotencyKey)
  open?.finish()
  await settled()
  return turns
}

beforeEach(() => {
  open = null
  answers = []
})

describe('the turns of calls that pay with permits', () => {
  it('a call waits until the open work of its payer is finished', async () => {
    const turns = turnsOf(NEVER_MS)
    openJob('first')
    wait(turns, 'second')
    await settled()
    expect(answers).toEqual([])
    open?.finish()
    await settled()
    expect(answers).toEqual(['second true'])
  })

  it('one waiting call is answered at a time, and the next one when the payment before it has settled', async () => {
    const turns = await turnsAfterFirst('second', 'third')
    expect(answers).toEqual(['second true'])
    openJob('second')
    turns.end(call('second'), true)
    await settled()
    expect(answers).toEqual(['second true'])
    open?.finish()
    await settled()
    expect(answers).toEqual(['second true', 'third true'])
  })

  it('only the call with the turn may try its permit', async () => {
    const turns = turnsOf(NEVER_MS)
    expect(await turns.mayTry(call('first'))).toBe(true)
    openJob('first')
    wait(turns, 'second')
    expect(await turns.mayTry(call('third'))).toBe(false)
    open?.finish()
    await settled()
    expect(await turns.mayTry(call('second'))).toBe(true)
    expect(await turns.mayTry(call('other', '0xbb'))).toBe(true)
  })

  it('a call that lost its turn to another process is the next one to get it', async () => {
    const turns = await turnsAfterFirst('second', 'third')
    openJob('of another process')
    wait(turns, 'second')
    await settled()
    expect(answers).toEqual(['second true'])
    open?.finish()
    await settled()
    expect(answers).toEqual(['second true', 'second true'])
  })

  it('a turn that nobody uses passes to a call that came with a good permit, before those that must sign again', async () => {
    const turns = await turnsAfterFirst('second', 'third')
    const mayTry = turns.mayTry(call('fourth'))
    turns.end(call('second'), false)
    expect(await mayTry).toBe(true)
    expect(answers).toEqual(['second true'])
    turns.end(call('fourth'), false)
    await settled()
    expect(answers).toEqual(['second true', 'third true'])
  })

  it('a turn ends by itself when its call does not return', async () => {
    const turns = turnsOf(SHORT_TURN_MS)
    openJob('first')
    wait(turns, 'second')
    wait(turns, 'third')
    open?.finish()
    await expect.poll(() => answers).toEqual(['second true', 'third true'])
    await expect.poll(() => turns.mayTry(call('fourth'))).toBe(true)
  })

  it('a permit that was signed during a turn is useless once the turn was used', async () => {
    const turns = await turnsAfterFirst('second')
    const mayTry = turns.mayTry(call('third'))
    turns.end(call('second'), true)
    expect(await mayTry).toBe(false)
  })

  it('few calls wait for the end of a turn, since they keep their bodies and have no place', async () => {
    const turns = await turnsAfterFirst('second')
    const ready = Array.from({ length: 16 }, (_, index) => turns.mayTry(call(`ready ${index}`)))
    expect(await Promise.race([turns.mayTry(call('one more')), settled()])).toBe(false)
    turns.end(call('second'), true)
    expect(new Set(await Promise.all(ready))).toEqual(new Set([false]))
  })

  it('a caller who must be answered gets no turn, and the others keep their order', async () => {
    const turns = turnsOf(NEVER_MS)
    const leaving = new AbortController()
    openJob('first')
    wait(turns, 'second', leaving.signal)
    wait(turns, 'third')
    leaving.abort()
    await settled()
    expect(answers).toEqual(['second false'])
    open?.finish()
    await settled()
    expect(answers).toEqual(['second false', 'third true'])
  })

  it('nothing is left when all callers have gone, so that the next call need not wait', async () => {
    const turns = turnsOf(NEVER_MS)
    const leaving = new AbortController()
    openJob('first')
    wait(turns, 'second', leaving.signal)
    leaving.abort()
    await settled()
    expect(await turns.mayTry(call('third'))).toBe(true)
    expect(await turns.wait(call('fourth'), AbortSignal.abort())).toBe(false)
    expect(await turns.mayTry(call('third'))).toBe(true)
  })

  it('a ledger that cannot be read ends every wait without a turn', async () => {
    const turns = createPermitTurns({
      store: { findOpenJob: () => Promise.reject(new Error('down')) },
      outcomes: { wait: () => Promise.reject(new Error('down')) },
      logger: silent,
    })
    expect(await Promise.all([turns.wait(call('a'), forever()), turns.wait(call('b'), forever())])).toEqual([
      false,
      false,
    ])
    expect(await turns.mayTry(call('c'))).toBe(true)
  })
})

describe('the acceptance of a payment with a permit', () => {
  let released: number
  const signed = (idempotencyKey: string) => ({
    idempotencyKey,
    authorization: { payer: PAYER as `0x${string}`, gasSponsoring: PERMIT },
    releaseContent: () => {
      released += 1
    },
    startWaitingForTurn: forever,
  })
  beforeEach(() => {
    released = 0
  })

  it('a call whose permit is in use is held without its content, and then asked for another payment', async () => {
    const permitTurns = turnsOf(SHORT_TURN_MS)
    openJob('first')
    const refused = acceptInTurn({ permitTurns }, signed('second'), used)
    refused.catch(() => answers.push('second'))
    await settled()
    expect([released, answers]).toEqual([1, []])
    open?.finish()
    await expect(refused).rejects.toMatchObject({ code: 'permit_already_used', retryAfterSeconds: 0.5 })
  })

  it('a call that came later is not verified while another one waits', async () => {
    const permitTurns = turnsOf(SHORT_TURN_MS)
    openJob('first')
    const second = acceptInTurn({ permitTurns }, signed('second'), used)
    await settled()
    let verified = 0
    const third = acceptInTurn({ permitTurns }, signed('third'), async () => {
      verified += 1
      return { jobId: 'third', isNew: true }
    })
    await settled()
    open?.finish()
    await expect(Promise.all([second, third])).rejects.toMatchObject({ code: 'permit_already_used' })
    await expect(third).rejects.toMatchObject({ code: 'permit_already_used' })
    expect(verified).toBe(0)
  })

  it('a payment without a permit waits for nobody, and any other refusal ends the turn', async () => {
    const permitTurns = turnsOf(NEVER_MS)
    openJob('first')
    const second = acceptInTurn({ permitTurns }, signed('second'), used)
    await settled()
    const approved = { ...signed('third'), authorization: { payer: PAYER as `0x${string}`, gasSponsoring: null } }
    const job = { jobId: 'third', isNew: true }
    expect(await acceptInTurn({ permitTurns }, approved, async () => job)).toEqual(job)
    open?.finish()
    await expect(second).rejects.toMatchObject({ code: 'permit_already_used' })
    await expect(acceptInTurn({ permitTurns }, signed('second'), poor)).rejects.toMatchObject({
      code: 'insufficient_funds',
    })
    await settled()
    expect(await permitTurns.mayTry(call('fourth'))).toBe(true)
  })
})
