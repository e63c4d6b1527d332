import { describe, expect, it } from 'vitest'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from '../../../api/routes/health.ts'
import { composeApp } from './compose-app.ts'

const up = async () => undefined
const down = async () => {
  throw new Error('postgres://user:secret@host')
}
const hangs = () => new Promise<void>(() => undefined)
const ask = async (
  url: string,
  checks: ReadinessChecks,
  warnings: ReadinessWarnings = {},
  draining: AbortSignal = new AbortController().signal,
) => (await composeApp((app) => addHealthRoutes(app, checks, warnings, draining))).inject(url)

describe('health', () => {
  it('/healthz answers whatever the dependencies do', async () => {
    const answer = await ask('/healthz', { database: down })
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({ status: 200, body: { status: 'ok' } })
  })

  it('/readyz is 200 when everything answers', async () => {
    const answer = await ask('/readyz', { database: up, chain: up, ffmpeg: up })
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({
      status: 'ok',
      checks: { database: 'ok', chain: 'ok', ffmpeg: 'ok' },
      warnings: [],
    })
  })

  it('/readyz is 503 and names what is down, and nothing more', async () => {
    const answer = await ask('/readyz', { database: down, chain: up, ffmpeg: down })
    expect(answer.statusCode).toBe(503)
    expect(answer.json()).toEqual({
      status: 'unavailable',
      checks: { database: 'down', chain: 'ok', ffmpeg: 'down' },
      warnings: [],
    })
    expect(answer.body).not.toContain('secret')
  })

  it('/readyz takes a dependency that hangs as down', async () => {
    const answer = await ask('/readyz', { database: up, chain: hangs })
    expect(answer.json()).toEqual({
      status: 'unavailable',
      checks: { database: 'ok', chain: 'down' },
      warnings: [],
    })
  })

  it('/readyz names what to see to, and is 200 all the same', async () => {
    const warnings = { settlement_gas_low: async () => true, clock_skew: async () => false }
    const answer = await ask('/readyz', { database: up }, warnings)
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({
      status: 200,
      body: { status: 'ok', checks: { database: 'ok' }, warnings: ['settlement_gas_low'] },
    })
  })

  it('/readyz takes what cannot be found out for no warning', async () => {
    const warnings = {
      settlement_gas_low: () => Promise.reject(new Error('down')),
      clock_skew: () => hangs().then(() => true),
    }
    expect((await ask('/readyz', { database: up }, warnings)).json()).toMatchObject({ status: 'ok', warnings: [] })
  })

  it('/readyz of a process that is told to stop is 503 at once, whatever its dependencies do', async () => {
    const answer = await ask('/readyz', { database: hangs }, {}, AbortSignal.abort())
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({
      status: 503,
      body: { status: 'draining', checks: {}, warnings: [] },
    })
    expect((await ask('/healthz', {}, {}, AbortSignal.abort())).statusCode).toBe(200)
  })
})
