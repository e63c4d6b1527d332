import { describe, expect, it } from 'vitest'
import { addHealthRoutes, type ReadinessChecks } from '../../../api/routes/health.ts'
import { composeApp } from './compose-app.ts'

const up = async () => undefined
const down = async () => {
  throw new Error('postgres://user:secret@host')
}
const hangs = () => new Promise<void>(() => undefined)
const ask = async (url: string, checks: ReadinessChecks) =>
  (await composeApp((app) => addHealthRoutes(app, checks))).inject(url)

describe('health', () => {
  it('/healthz answers whatever the dependencies do', async () => {
    const answer = await ask('/healthz', { database: down })
    expect({ status: answer.statusCode, body: answer.json() }).toEqual({ status: 200, body: { status: 'ok' } })
  })

  it('/readyz is 200 when everything answers', async () => {
    const answer = await ask('/readyz', { database: up, chain: up, ffmpeg: up })
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({ status: 'ok', checks: { database: 'ok', chain: 'ok', ffmpeg: 'ok' } })
  })

  it('/readyz is 503 and names what is down, and nothing more', async () => {
    const answer = await ask('/readyz', { database: down, chain: up, ffmpeg: down })
    expect(answer.statusCode).toBe(503)
    expect(answer.json()).toEqual({
      status: 'unavailable',
      checks: { database: 'down', chain: 'ok', ffmpeg: 'down' },
    })
    expect(answer.body).not.toContain('secret')
  })

  it('/readyz takes a dependency that hangs as down', async () => {
    const answer = await ask('/readyz', { database: up, chain: hangs })
    expect(answer.json()).toEqual({ status: 'unavailable', checks: { database: 'ok', chain: 'down' } })
  })
})
