import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ConsoleVisitor, visitConsole } from '../../support/console/console-visitor.ts'
import { crawl } from '../../support/console/crawl.ts'
import { populateConfiguration } from '../../support/console/populate-ledger.ts'
import { routesOf } from '../../support/console/routes-of.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'

const NEW_PASSWORD = 'another long password'
/** Returns the numbers of the subjects of the actions on a page. */
function subjectsOf(body: string): number[] {
  return [...body.matchAll(/\?subject=subject-(\d+)"/g)].map(([, n]) => Number(n))
}
/** Actions on the operator's own account, which both roles may do. */
const OWN_ACCOUNT = ['/operator/sign-out', '/operator/account/password']
/** What strangers may open. */
const PUBLIC = /^(?:\/|\/operator\/sign-in|\/operator\/healthz|\/operator\/assets\/[\w.-]+)$/
const filled = (path: string) => path.replaceAll(/:\w+/g, 'x')

describe('forms of the console', () => {
  let console: TestConsole
  beforeAll(async () => {
    console = await startTestConsole()
  })

  afterAll(() => console.close())

  describe('a form of the console', () => {
    it('is shown again with the reason at each field, and never with a password', async () => {
      const visitor = await console.signIn('read')
      const { status, body } = await visitor.submit('/operator/account/password', {
        current_password: 'a wrong password',
        new_password: 'too short',
        repeated_password: 'too short',
      })
      expect(status).toBe(422)
      expect(body).toContain('A password has at least 15 characters.')
      expect(body).toContain('aria-invalid="true"')
      for (const secret of ['a wrong password', 'too short']) expect(body).not.toContain(secret)
    })

    it('says what it did on the next page, once, and ends every session of an account with its old password', async () => {
      const [visitor, other] = [await console.addActor('changing'), visitConsole(console.app)]
      await other.signIn('changing', TEST_PASSWORD)
      const fields = { current_password: TEST_PASSWORD, new_password: NEW_PASSWORD, repeated_password: NEW_PASSWORD }
      const wrong = { ...fields, repeated_password: `${NEW_PASSWORD}!` }
      expect((await visitor.submit('/operator/account/password', wrong)).body).toContain(
        'The two new passwords differ.',
      )
      const { status, location } = await visitor.submit('/operator/account/password', fields)
      expect({ status, location }).toEqual({ status: 303, location: '/operator/sign-in' })
      const sentence = 'Your password is changed, and every session of your account has ended.'
      // A page that reads itself again in the background does not take it.
      expect((await visitor.get('/operator/sign-in', { 'hx-request': 'true' })).body).not.toContain(sentence)
      expect((await visitor.get('/operator/sign-in')).body).toContain(sentence)
      expect((await visitor.get('/operator/sign-in')).body).not.toContain(sentence)
      expect((await other.get('/operator')).status).toBe(303)
      await other.signIn('changing', NEW_PASSWORD)
      expect((await other.get('/operator')).status).toBe(200)
      await expect(visitConsole(console.app).signIn('changing', TEST_PASSWORD)).rejects.toThrow('answers 422')
    })

    it('lets whoever took a session over guess the password no faster than at the sign-in', async () => {
      const visitor = await console.addActor('guessed')
      const fields = { new_password: NEW_PASSWORD, repeated_password: NEW_PASSWORD }
      const answers: string[] = []
      for (let guess = 1; guess <= 16; guess += 1)
        answers.push((await visitor.submit('/operator/account/password', { ...fields, current_password: 'no' })).body)
      expect(answers.filter((body) => body.includes('This is not your current password.'))).toHaveLength(15)
      const right = { ...fields, current_password: TEST_PASSWORD }
      const { status, body } = await visitor.submit('/operator/account/password', right)
      expect([status, body]).toEqual([422, expect.stringContaining('Too many wrong passwords. Try again in')])
      const audited = await console.ledger.sql<{ row: string }>(
        `SELECT concat_ws(' ', operator, action, subject) AS row FROM operator_actions
         WHERE subject = 'guessed' AND action IN ('session.refuse', 'session.throttle') ORDER BY id`,
      )
      const rows = audited.map(({ row }) => row)
      expect(rows).toEqual([
        ...Array.from({ length: 15 }, () => 'guessed session.refuse guessed'),
        ...Array.from({ length: 2 }, () => 'guessed session.throttle guessed'),
      ])
      await console.ledger.sql("UPDATE failed_sign_ins SET failed_at = now() - interval '1 hour'")
      for (let guess = 1; guess <= 3; guess += 1)
        await visitor.submit('/operator/account/password', { ...fields, current_password: 'no' })
      expect((await visitor.submit('/operator/account/password', right)).status).toBe(303)
      expect(
        await console.ledger.sql("SELECT FROM failed_sign_ins WHERE failed_at > now() - interval '1 minute'"),
      ).toEqual([])
    })

    it('keeps the filters of its page when it is refused', async () => {
      const visitor = await console.signIn('act')
      const { body } = await visitor.submit('/operator/account/password', { _query: 'a=1&b=%22%3E%3Cb%3E' })
      expect(body).toContain('name="_query" value="a=1&amp;b=%22%3E%3Cb%3E"')
    })

    it.each(['application/json', 'text/plain', 'multipart/form-data; boundary=x'])(
      'is not read as %s',
      async (type) => {
        const visitor = await console.signIn('act')
        const { statusCode } = await console.app.inject({
          method: 'POST',
          url: '/operator/account/password',
          headers: { 'content-type': type, 'sec-fetch-site': 'same-origin' },
          cookies: Object.fromEntries(visitor.cookies),
          payload: JSON.stringify({ _csrf: await visitor.csrfToken() }),
        })
        expect(statusCode).toBe(415)
      },
    )
  })

  describe('a page of the console', () => {
    it('keeps its session when it is opened from a link on another site, which browsers send no cookie with', async () => {
      const followed = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
      for (const path of ['/operator', '/operator/sign-in']) {
        const { status, headers, body } = await visitConsole(console.app).get(path, followed)
        expect(status).toBe(200)
        expect(headers['set-cookie']).toBeUndefined()
        expect(body).toContain('<meta http-equiv="refresh" content="0">')
      }
      const visitor = await console.signIn('act')
      expect((await visitor.get('/operator', followed)).body).toContain('<h1>Now</h1>')
    })

    it('leads to the sign-in and back when its session has ended, and opens as a whole when it reads itself', async () => {
      const visitor = visitConsole(console.app)
      expect((await visitor.get('/operator/audit?operator=a')).location).toBe(
        '/operator/sign-in?next=%2Foperator%2Faudit%3Foperator%3Da',
      )
      expect(await visitor.get('/operator', { 'hx-request': 'true' })).toMatchObject({
        status: 204,
        headers: { 'hx-refresh': 'true' },
      })
    })

    it('says what is wrong with its address', async () => {
      const visitor = await console.signIn('act')
      expect(await visitor.get('/operator/audit?before=soon')).toMatchObject({ status: 400 })
      expect(await visitor.get('/operator/nothing')).toMatchObject({ status: 404 })
    })

    it('is never stored by a cache and never shown inside another site', async () => {
      const { headers } = await (await console.signIn('act')).get('/operator')
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
      })
    })

    it('marks itself in the navigation', async () => {
      const { body } = await (await console.signIn('act')).get('/operator/audit?operator=actor')
      expect([...body.matchAll(/<a href="([^"]+)" aria-current="page">/g)].map(([, path]) => path)).toEqual([
        '/operator/audit',
      ])
    })
  })

  describe('a notice', () => {
    it('is shown only in the words of the console', async () => {
      const visitor = await console.signIn('act')
      const forged = `${Buffer.from('Call us at once').toString('base64url')}.${'A'.repeat(43)}`
      for (const value of [forged, forged.split('.')[0] ?? '', 'x', '.', '']) {
        visitor.cookies.set('operator_notice', value)
        const { status, body } = await visitor.get('/operator/account')
        expect([value, status, body.includes('Call us at once')]).toEqual([value, 200, false])
      }
    })

    it('is shown in no other browser than the one of its action', async () => {
      const [visitor, other] = [await console.signIn('act'), await console.signIn('act')]
      await visitor.submit('/operator/queues/text/pause', { reason: 'test' })
      other.cookies.set('operator_notice', visitor.cookies.get('operator_notice') ?? '')
      const sentence = /<p class="notice"/
      expect((await other.get('/operator/account')).body).not.toMatch(sentence)
      expect((await visitor.get('/operator/account')).body).toMatch(sentence)
      await visitor.submit('/operator/queues/text/resume', { reason: 'test' })
    })
  })

  describe('a file that is saved', () => {
    it('is in the audit with who saved what, one by one up to the 99th of a day, and in a metric', async () => {
      const visitor = await console.signIn('act')
      const files = ['/operator/ledger/days.csv?from=2026-01-01&until=2026-01-31', '/operator/ledger/calls.csv']
      for (const file of files) expect((await visitor.get(file)).status).toBe(200)
      const rows = async () =>
        await console.ledger.sql<{ subject: string; today: number }>(
          `SELECT operator, subject, (details ->> 'today')::int AS today FROM operator_actions
           WHERE action = 'file.download' ORDER BY id`,
        )
      expect(await rows()).toEqual(files.map((subject, index) => ({ operator: 'actor', subject, today: index + 1 })))
      await visitor.get(`/operator/ledger/days.csv?unknown=${'x'.repeat(5000)}`)
      for (let count = 4; count <= 120; count += 1) await visitor.get('/operator/ledger/days.csv')
      expect((await rows()).map(({ today }) => today)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1))
      expect(await console.metrics.metrics()).toContain('farebox_operator_downloads_total 120\n')
    })
  })

  describe('the audit', () => {
    it('shows every action with its author, newest first, page by page and by each filter', async () => {
      await console.ledger.sql(
        `INSERT INTO operator_actions (operator, source, action, subject, reason, details)
       SELECT 'a' || n % 2, 'command', 'test.' || n % 3, 'subject-' || n, 'because ' || n, '{"n": 1}'
       FROM generate_series(1, 120) AS n`,
      )
      const visitor = await console.signIn('act')
      const read: number[] = []
      let next: string | undefined = '/operator/audit?operator=a1'
      while (next !== undefined) {
        const { body } = await visitor.get(next)
        read.push(...subjectsOf(body))
        next = /href="([^"]+)" rel="next"/.exec(body)?.[1]?.replaceAll('&amp;', '&')
      }
      expect(read).toEqual(Array.from({ length: 60 }, (_, index) => 119 - 2 * index))
      expect(subjectsOf((await visitor.get('/operator/audit?subject=subject-7')).body)).toEqual([7])
      expect(subjectsOf((await visitor.get('/operator/audit?action=test.1&operator=a0&before=0')).body)).toEqual([])
    })

    it('cannot be changed', async () => {
      for (const statement of [
        "UPDATE operator_actions SET operator = 'x'",
        'DELETE FROM operator_actions',
        'TRUNCATE operator_actions',
      ])
        await expect(console.ledger.sql(statement)).rejects.toThrow('immutable')
    })
  })
})

describe('a request to the console by somebody who may not make it', () => {
  let console: TestConsole
  let app: FastifyInstance
  let actor: ConsoleVisitor
  let reader: ConsoleVisitor
  let actions: readonly string[]
  let before: string

  beforeAll(async () => {
    console = await startTestConsole()
    app = console.app
    await jobInState(console.ledger, 'review')
    await populateConfiguration(console.ledger, 'http://upstream.test')
    await jobInState(console.ledger, 'review')
    actor = await console.signIn('act')
    reader = await console.signIn('read')
    actions = app.consoleRoutes.filter(({ kind }) => kind === 'action').map(({ path }) => path)
    before = await console.ledger.fingerprint()
  })
  afterAll(() => console.close())

  /** Posts to each action, and returns the actions by the status that they answered. */
  const statuses = async (
    post: (path: string) => Promise<{ status: number; location: string | undefined }>,
    paths = actions,
  ) => {
    const answered = new Map<string, string[]>()
    for (const path of paths) {
      const { status, location } = await post(filled(path))
      const outcome = location === undefined ? String(status) : `${status} to ${location}`
      answered.set(outcome, [...(answered.get(outcome) ?? []), path])
    }
    return answered
  }

  it('has no route that changes something without being an action', () => {
    const others = routesOf(app)
      .filter(({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method))
      .filter(({ path }) => !actions.includes(path))
    expect(others).toEqual([{ method: 'POST', path: '/operator/sign-in' }])
    expect(actions.length).toBeGreaterThan(OWN_ACCOUNT.length)
  })

  it('is refused under another name than the console’s, whatever it is for', async () => {
    const answers = async (host: string, path: string) => {
      const { status, body } = await actor.get(path, { host })
      return [status, body.includes('nav') || body.includes('form')]
    }
    for (const host of ['evil.test', 'evil.test:8403', '127.0.0.1.evil.test', 'localhost.evil.test', '192.0.2.1:8403'])
      for (const path of ['/operator', '/operator/sign-in', '/', '/nothing', '/operator/assets/console.js'])
        expect([host, path, await answers(host, path)]).toEqual([host, path, [421, false]])
    const forged = await app.inject({
      method: 'POST',
      url: '/operator/sign-in',
      headers: { host: 'evil.test', origin: 'http://evil.test' },
    })
    expect(forged.statusCode).toBe(421)
    for (const host of ['127.0.0.1:9000', 'localhost', '[::1]:8403', 'LOCALHOST:1'])
      expect([host, (await actor.get('/operator/account', { host })).status]).toEqual([host, 200])
    // Kubernetes asks by the address of the pod.
    expect((await actor.get('/operator/healthz', { host: '10.0.0.7:8403' })).status).toBe(200)
  })

  it('is answered under the names of OPERATOR_BASE_URL and OPERATOR_HOSTS', async () => {
    const named = await startTestConsole(undefined, {
      OPERATOR_BASE_URL: 'https://console.example',
      OPERATOR_HOSTS: 'farebox.internal:8403, [fd00::1]',
    })
    const statusOf = async (host: string) =>
      (await named.app.inject({ url: '/operator/sign-in', headers: { host } })).statusCode
    try {
      for (const host of ['console.example', 'Console.Example', 'farebox.internal:8403', '[fd00::1]'])
        expect([host, await statusOf(host)]).toEqual([host, 200])
      for (const host of ['farebox.internal', 'console.example:8403', 'example'])
        expect([host, await statusOf(host)]).toEqual([host, 421])
    } finally {
      await named.close()
    }
  })

  it('is refused behind a trusted proxy that passes on a name which a page of another site has forged', async () => {
    const behind = await startTestConsole(undefined, {
      OPERATOR_BASE_URL: 'https://console.example',
      OPERATOR_TRUSTED_PROXIES: '127.0.0.1',
    })
    const statusOf = async (host: string, forwarded: string) =>
      (await behind.app.inject({ url: '/operator/sign-in', headers: { host, 'x-forwarded-host': forwarded } }))
        .statusCode
    try {
      expect(await statusOf('console.example', 'console.example')).toBe(200)
      expect(await statusOf('evil.test', 'console.example')).toBe(421)
      expect(await statusOf('console.example', 'evil.test')).toBe(421)
    } finally {
      await behind.close()
    }
  })

  it('has no page that a stranger can read', async () => {
    const stranger = visitConsole(app)
    for (const { path } of routesOf(app).filter(({ method }) => method === 'GET')) {
      const { status, location, body } = await stranger.get(filled(path))
      if (PUBLIC.test(path)) continue
      expect({ path, status, location, body }).toEqual({
        path,
        status: 303,
        location: `/operator/sign-in?next=${encodeURIComponent(filled(path))}`,
        body: '',
      })
    }
    expect((await stranger.get('/operator', { 'hx-request': 'true' })).body).toBe('')
  })

  it('refuses every action without a session', async () => {
    const stranger = visitConsole(app)
    expect([...(await statuses((path) => stranger.post(path, { _csrf: 'x' }))).keys()]).toEqual([
      '303 to /operator/sign-in',
    ])
  })

  it('refuses every action without a CSRF token, and with the one of another session', async () => {
    const token = await (await console.signIn('act')).csrfToken()
    for (const fields of [{}, { _csrf: '' }, { _csrf: 'x' }, { _csrf: token }] as const)
      expect([...(await statuses((path) => actor.post(path, fields as Record<string, string>))).keys()]).toEqual([
        '403',
      ])
  })

  it('refuses every action with a CSRF token in its address or a header in place of the form', async () => {
    const token = await actor.csrfToken()
    expect([...(await statuses((path) => actor.post(`${path}?_csrf=${token}`, {}))).keys()]).toEqual(['403'])
  })

  it('refuses every action that another site sends', async () => {
    const token = await actor.csrfToken()
    for (const origin of ['https://evil.test', 'http://127.0.0.1:9', 'null', null])
      expect([...(await statuses((path) => actor.post(path, { _csrf: token }, origin))).keys()]).toEqual(['403'])
  })

  it('refuses every action to an operator who reads, except those on their own account', async () => {
    const token = await reader.csrfToken()
    const others = actions.filter((path) => !OWN_ACCOUNT.includes(path))
    const answered = await statuses((path) => reader.post(path, { _csrf: token }), others)
    expect([...answered.keys()]).toEqual(['403'])
  })

  it('shows a form of every action to an operator who may act', async () => {
    const { forms } = await crawl(actor.get, app.consoleRoutes)
    // Shown by the page of a paused queue, a drained deployment and an earlier publication, and by none of the others.
    expect(actions.filter((path) => !forms.has(path))).toEqual([])
  })

  it('shows no form of an action to an operator who reads', async () => {
    const { forms } = await crawl(reader.get, app.consoleRoutes)
    expect([...forms.keys()].filter((path) => !OWN_ACCOUNT.includes(path))).toEqual([])
  })

  it('takes an action by no other method than POST', async () => {
    const pages = routesOf(app).flatMap(({ method, path }) => (method === 'GET' ? [path] : []))
    for (const path of actions.filter((action) => !pages.includes(action)))
      expect([path, (await actor.get(filled(path))).status]).toEqual([path, 404])
  })

  it('changes nothing', async () => {
    expect(await console.ledger.fingerprint()).not.toBe('')
    const [now, earlier] = [await console.ledger.fingerprint(), before].map((digests) =>
      // Sign-ins of this file are recorded.
      digests.split('\n').filter((line) => !/^(?:operator_actions|operator_action_head|operator_sessions) /.test(line)),
    )
    expect(now).toEqual(earlier)
  })

  it('reaches every action with a session, its token and the role', async () => {
    const visitor = await console.signIn('act')
    const token = await visitor.csrfToken()
    // Fields are missing, so nothing is changed; signing out needs none, so it comes last.
    const others = actions.filter((path) => path !== '/operator/sign-out')
    const answered = await statuses((path) => visitor.post(path, { _csrf: token }), others)
    expect(
      [...answered.keys()].filter(
        (outcome) => !['404', '422'].includes(outcome) && !/^303 to \/operator\/(?!sign-in)/.test(outcome),
      ),
    ).toEqual([])
    await visitor.post('/operator/sign-out', { _csrf: token })
    expect((await visitor.get('/operator')).status).toBe(303)
  })
})

describe('the console during a database outage', () => {
  let proxy: TcpFaultProxy
  let console: TestConsole
  let actor: ConsoleVisitor
  let token: string

  beforeAll(async () => {
    console = await startTestConsole(async (url) => {
      const target = new URL(url)
      proxy = await startTcpFaultProxy({ host: target.hostname, port: Number(target.port) })
      target.port = String(proxy.port)
      return target.href
    })
    actor = await console.signIn('act')
    token = await actor.csrfToken()
    await proxy.setFault({ kind: 'refuse' })
  })
  afterAll(async () => {
    await console.close()
    await proxy.stop()
  })

  it('says on every page that the database does not answer, and shows none of it', async () => {
    for (const { kind, path } of console.app.consoleRoutes.filter((route) => route.kind !== 'action')) {
      const { status, body } = await actor.get(path.replaceAll(/:\w+/g, 'x'))
      expect([kind, path, status]).toEqual([kind, path, 503])
      expect(body).toContain('The database does not answer')
      expect(body).not.toContain('Sign out')
    }
  })

  it('signs nobody in, and changes nothing', async () => {
    const before = await console.ledger.fingerprint()
    for (const { path } of console.app.consoleRoutes.filter(({ kind }) => kind === 'action')) {
      const { status } = await actor.post(path.replaceAll(/:\w+/g, 'x'), { _csrf: token })
      expect([path, status]).toEqual([path, 503])
    }
    await expect(console.signIn('act')).rejects.toThrow('answers 503')
    expect(await console.ledger.fingerprint()).toBe(before)
  })

  it('is alive, and leads to no other site', async () => {
    expect((await actor.get('/operator/healthz')).status).toBe(200)
    // The page reads itself again: its address must stay one of this console.
    const { body } = await actor.get('//evil.test/operator')
    expect(body).not.toMatch(/(?:hx-get|href|action)="\/\//)
  })

  it('continues with the same session once the database answers', async () => {
    await proxy.setFault(null)
    await expect.poll(async () => (await actor.get('/operator')).status).toBe(200)
  })
})
