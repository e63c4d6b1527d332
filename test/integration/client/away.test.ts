import { describe, expect, it } from 'vitest'
import { payCall } from '../../../client/payment/pay-call.ts'
import { RetrySchedule } from '../../../client/payment/retry-schedule.ts'
import { CHAT, CHAT_KEY, openClient } from '../../support/client/open-client.ts'
import {
  challenge,
  charged as chargedOver,
  type ScriptedServer,
  startScriptedServer,
} from '../../support/client/scripted-server.ts'
import { callOf, challenged, charged, composePayments, failed } from '../../support/client/scripted-service.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** A call that waits up to an hour, during which each wait takes ten minutes by the call's clock. */
async function callDuringOutage(tenMinutes: number, last: 'charged' | 'away') {
  const away = failed(503, 'overloaded', 'none', 'same_request', { 'retry-after-ms': '1' })
  const composed = composePayments(
    [
      challenged(),
      ...Array.from({ length: tenMinutes }, () => away),
      ...(last === 'charged' ? [charged('5034')] : [away]),
    ],
    { session: '1' },
  )
  const waits: number[] = []
  const call = callOf({
    patienceMs: HOUR_MS,
    onWait: (_error, waitMs) => {
      waits.push(waitMs)
      composed.clock.skew += 10 * MINUTE_MS
    },
  })
  const outcome = await payCall(composed.context, call).catch((error: unknown) => error)
  return { ...composed, outcome, waits }
}
async function startAgain(port: number): Promise<ScriptedServer> {
  const server = await startScriptedServer({ at: port })
  server.always((received, reply) => (received.payment === undefined ? challenge() : chargedOver())(received, reply))
  return server
}

describe('payments that were refused and could still be settled', () => {
  it('together as much as the budget, they keep another from being signed until their signatures end', async () => {
    const refused = failed(503, 'provider_unavailable', 'none', 'new_payment', { 'retry-after-ms': '0' })
    const turns = Array.from({ length: 4 }, () => [challenged(), refused]).flat()
    const { context, seen, clock, extend } = composePayments([...turns, challenged()], { session: '0.02' })
    const error: unknown = await payCall(context, callOf({ patienceMs: MINUTE_MS })).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'too_many_refused', money: 'none' })
    expect((error as Error).message).toMatch(
      /refused payments of 0\.020136 USDC in all.*until \d{4}-.*Nothing was charged/,
    )
    expect(new Set(seen.flatMap(({ payment }) => payment ?? [])).size).toBe(4)
    clock.skew += 11 * MINUTE_MS
    extend(challenged({ expiresAt: new Date(Date.now() + 20 * MINUTE_MS).toISOString() }), charged('5034'))
    expect(await payCall(context, callOf())).toMatchObject({ payment: { charged: '0.005034' } })
  })
})

describe('a service that is away', () => {
  it('a call waits for an hour, and is charged once when the service is back', async () => {
    const { outcome, seen } = await callDuringOutage(5, 'charged')
    expect(outcome).toMatchObject({ payment: { charged: '0.005034' } })
    expect(new Set(seen.flatMap(({ payment }) => payment ?? [])).size).toBe(1)
  })

  it('after its patience a call says what happened to the money, and how to go on', async () => {
    const { outcome, waits, context } = await callDuringOutage(20, 'away')
    expect(outcome).toMatchObject({ code: 'overloaded', money: 'none', advice: expect.stringMatching(/same key/) })
    expect(waits.length).toBeLessThanOrEqual(7)
    expect(context.budget.left().session).toBe(1_000_000n)
  })

  it('waits end within the patience, whatever the server asks for', () => {
    for (const asked of [undefined, 0, 1000, 10 * MINUTE_MS, 2 * HOUR_MS, Number.POSITIVE_INFINITY]) {
      let now = 0
      const schedule = new RetrySchedule(HOUR_MS, () => now)
      let turns = 0
      for (let wait = schedule.next(asked); wait !== null; wait = schedule.next(asked)) {
        now += wait
        turns += 1
      }
      expect(now).toBeLessThanOrEqual(HOUR_MS)
      expect(turns).toBeLessThan(HOUR_MS / 900)
    }
  })

  it('a call that began while nothing listened is paid once when the service is there', async () => {
    const first = await startScriptedServer()
    const port = Number(new URL(first.baseUrl).port)
    const client = await openClient(first)
    await first.stop()
    let starting: ReturnType<typeof startAgain> | undefined
    const answer = client.chat.create(CHAT, {
      requestId: CHAT_KEY,
      patienceMs: MINUTE_MS,
      onWait: (error) => {
        expect(error).toMatchObject({ code: 'connection_lost', money: 'none' })
        starting ??= startAgain(port)
      },
    })
    expect((await answer).payment.charged).toBe('0.005034')
    const back = await starting
    expect(back?.received.filter(({ payment }) => payment !== undefined)).toHaveLength(1)
    await back?.stop()
  })
})
