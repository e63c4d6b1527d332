import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createPool } from '#shared/ledger/pool.ts'
import { UPSTREAM_KEY } from '../../../infra/sandbox/deployments.ts'
import { readCsrfToken } from '../../support/console/read-markup.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

interface Listener {
  readonly url: string
  /** Method, path and authorization of each request. */
  readonly received: readonly string[]
  close(): void
}

/** Listens on loopback as a vendor whose list has no models. */
async function listen(): Promise<Listener> {
  const received: string[] = []
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''}`)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, received, close: () => void server.close() }
}

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

  const inForce = async () => {
    const [row] = await sandbox.sql<{ content: { deployments: object[] } }>(
      `SELECT content FROM publications WHERE kind = 'deployments' ORDER BY number DESC LIMIT 1`,
    )
    return row?.content.deployments ?? []
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

  describe('a publication that sends the workers’ keys elsewhere', () => {
    const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello' }] }
    const ADA = { operator: 'ada', source: 'command' } as const
    let stranger: Listener
    beforeEach(async () => {
      stranger = await listen()
    })
    afterEach(() => stranger.close())

    const entry = (name: string, base_url: string, api_key_env: string) => ({
      name,
      adapter: 'openai-compatible',
      base_url,
      api_key_env,
      upstream_model: name,
      serves: [CHAT.model],
      priority: 0,
    })
    const thefts = () => [
      entry('steals-settlement-keys', stranger.url, 'SETTLEMENT_PRIVATE_KEYS'),
      entry('steals-database', stranger.url, 'DATABASE_URL'),
      entry('steals-vendor-key', stranger.url, UPSTREAM_KEY),
    ]

    it('is refused by the console and by the command, which name what is wrong', async () => {
      await until(async () => (await sandbox.sql("SELECT FROM process_reports WHERE kind = 'worker'")).length === 1)
      const before = await inForce()
      for (const [index, theft] of thefts().entries()) {
        const content = JSON.stringify({ deployments: [...before, theft] })
        const why = [
          'SETTLEMENT_PRIVATE_KEYS is a setting',
          'DATABASE_URL is a setting',
          `${UPSTREAM_KEY} may not be sent`,
        ]
        const form = readCsrfToken((await page('/operator/deployments')).text)
        const answer = await fetch(`${origin}/operator/deployments/draft`, {
          method: 'POST',
          headers: { cookie, origin },
          body: new URLSearchParams({ content, draft: '', based_on: '', _csrf: form }),
          redirect: 'manual',
        })
        expect([answer.status, await answer.text()]).toEqual([422, expect.stringContaining(why[index] ?? '')])
        const file = join(sandbox.directory, 'theft.json')
        await writeFile(file, content)
        const commandLine = ['publish', file, '--reason', 'x', '--new-hosts']
        const environment = { DATABASE_URL: sandbox.info.databaseUrl }
        expect(await runCommand('infra/commands/deployments/main.ts', commandLine, environment)).toMatchObject({
          exitCode: 1,
          errors: expect.stringContaining(why[index] ?? ''),
        })
      }
      expect(await inForce()).toEqual(before)
      expect(stranger.received).toEqual([])
    })

    it('is not obeyed by a worker, whoever wrote it into the database: no key leaves, and the others serve', async () => {
      const before = await inForce()
      const pool = createPool({
        connectionString: sandbox.info.databaseUrl,
        maximumConnections: 1,
        applicationName: 'farebox test',
        onError: () => undefined,
      })
      const store = createConfigurationStore(pool)
      // A worker that obeyed would call the stranger first.
      const others = before.map((deployment) => ({ ...deployment, priority: 9 }))
      const stolen = { deployments: [...thefts(), ...others] } as unknown as JsonValue
      await store.importFile(ADA, { kind: 'deployments', content: stolen, reason: 'a test' })
      await until(async () => {
        const [row] = await sandbox.sql<{ unusable: Record<string, string> }>(
          `SELECT report -> 'unusable' AS unusable FROM process_reports WHERE kind = 'worker'`,
        )
        return thefts().every(({ name }) => /is a setting of farebox|may not be sent/.test(row?.unusable[name] ?? ''))
      })
      expect((await page('/operator/providers')).text).toContain('unusable on 1')
      const idempotencyKey = randomUUID()
      const headers = await sandbox.payer.sign(await sandbox.post('/v1/chat/completions', CHAT, { idempotencyKey }))
      expect((await sandbox.post('/v1/chat/completions', CHAT, { idempotencyKey, headers })).status).toBe(200)
      expect(stranger.received).toEqual([])
      const content = { deployments: before } as unknown as JsonValue
      await store.importFile(ADA, { kind: 'deployments', content, reason: 'as before' })
      await pool.end()
    })
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
