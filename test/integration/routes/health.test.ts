import { describe, expect, it } from 'vitest'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from '../../../api/routes/health.ts'
import { composeApp } from './compose-app.ts'

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
