import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readCsrfToken } from '../../support/console/read-markup.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

describe('the console as a process', () => {
  let sandbox: TestSandbox
  let origin: string
  let cookie = ''

  const page = async (path: string) => {
    const response = await fetch(`${origin}${path}`, { headers: { cookie }, redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  const signIn = async () => {
    const { user, password } = sandbox.info.operator ?? { user: '', password: '' }
    const form = await fetch(`${origin}/operator/sign-in`)
    const first = String(form.headers.getSetCookie()[0]?.split(';', 1))
    const fields = { name: user, password, _csrf: readCsrfToken(await form.text()) }
    const answer = await fetch(`${origin}/operator/sign-in`, {
      method: 'POST',
      headers: { cookie: first, origin },
      body: new URLSearchParams(fields),
      redirect: 'manual',
    })
    expect(answer.status).toBe(303)
    cookie = String(answer.headers.getSetCookie()[0]?.split(';', 1))
  }

  beforeAll(async () => {
    sandbox = await startStandaloneSandbox({ operator: true })
    origin = new URL(sandbox.info.operator?.url ?? '').origin
    await until(async () => (await sandbox.sql('SELECT FROM operators')).length === 1)
    await signIn()
  })
  afterAll(() => sandbox.stop())

  it('shows what a paid call earned, the queues, the workers and the gas of the settlement key', async () => {
    const call = { body: { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') } }
    const key = 'console-e2e-key-of-a-call'
    const challenge = await sandbox.transcribe({ ...call, idempotencyKey: key })
    const headers = await sandbox.payer.sign(challenge)
    expect((await sandbox.transcribe({ ...call, idempotencyKey: key, headers })).status).toBe(200)
    const { status, text } = await page('/operator')
    expect(status).toBe(200)
    expect(text).toContain('<p class="muted">1 call</p>')
    expect(text).toContain('1 API, 1 worker and 1 console running.')
    expect(text.toLowerCase()).toContain(`title="${sandbox.info.settlementAddresses[0]?.toLowerCase()}"`)
    expect(text).toContain('Nothing needs a person.')
    expect(text).not.toContain(key)
  })

  it('answers its liveness check without a session, and nothing else on the public API', async () => {
    expect(await (await fetch(`${origin}/operator/healthz`)).json()).toEqual({ status: 'ok' })
    expect((await fetch(`${sandbox.info.baseUrl}/operator`)).status).toBe(404)
  })

  it('serves its own scripts and styles, and a policy that allows nothing else', async () => {
    const { headers, text } = await page('/operator')
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    )
    const assets = [...text.matchAll(/(?:src|href)="(\/operator\/assets\/[^"]+)"/g)].map(([, path]) => path ?? '')
    expect(assets.length).toBeGreaterThan(3)
    const charts = ['/operator/assets/uPlot.iife.min.js', '/operator/assets/uPlot.min.css']
    const answers = await Promise.all([...assets, ...charts].map((path) => fetch(`${origin}${path}`)))
    expect(answers.filter(({ ok }) => !ok).map(({ url }) => url)).toEqual([])
  })

  it('says that the database is out, and opens its pages again by itself afterwards', async () => {
    process.kill(sandbox.pidOf('database'), 'SIGKILL')
    await until(async () => (await page('/operator')).status === 503)
    const outage = await page('/operator')
    expect(outage.text).toContain('The database does not answer')
    expect(outage.text).toContain('<meta http-equiv="refresh" content="5">')
    expect((await page('/operator/healthz')).status).toBe(200)
    expect((await page('/operator/assets/console.css')).status).toBe(200)
    await sandbox.restart('database')
    await until(async () => (await page('/operator')).status === 200)
  })

  it('keeps sessions over a restart, and stops cleanly', async () => {
    process.kill(sandbox.pidOf('operator'), 'SIGTERM')
    const exit = await sandbox.restart('operator')
    expect(exit).toEqual({ code: 0, signal: null })
    expect((await page('/operator/account')).status).toBe(200)
    expect(await sandbox.sql("SELECT FROM operator_actions WHERE action = 'operator.add'")).toHaveLength(1)
  })

  it('writes neither a password nor a token to its log', async () => {
    const log = await readFile(join(sandbox.directory, 'logs/operator.log'), 'utf8')
    expect(log).toContain('created the first account')
    expect(log).not.toContain(sandbox.info.operator?.password)
    expect(log).not.toContain(cookie.split('=')[1])
  })
})
