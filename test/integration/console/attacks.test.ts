import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ConsoleVisitor, visitConsole } from '../../support/console/console-visitor.ts'
import { crawl } from '../../support/console/crawl.ts'
import { populateConfiguration } from '../../support/console/populate-ledger.ts'
import { routesOf } from '../../support/console/routes-of.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'

/** Actions on the operator's own account, which both roles may do. */
const OWN_ACCOUNT = ['/operator/sign-out', '/operator/account/password']
/** What strangers may open. */
const PUBLIC = /^(?:\/|\/operator\/sign-in|\/operator\/healthz|\/operator\/assets\/[\w.-]+)$/

const filled = (path: string) => path.replaceAll(/:\w+/g, 'x')

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
      digests.split('\n').filter((line) => !/^(?:operator_actions|operator_sessions) /.test(line)),
    )
    expect(now).toEqual(earlier)
  })

  it('reaches every action with a session, its token and the role', async () => {
    const token = await actor.csrfToken()
    // Fields are missing, so nothing is changed; signing out needs none, so it comes last.
    const others = actions.filter((path) => path !== '/operator/sign-out')
    const answered = await statuses((path) => actor.post(path, { _csrf: token }), others)
    expect(
      [...answered.keys()].filter(
        (outcome) => !['404', '422'].includes(outcome) && !/^303 to \/operator\/(?!sign-in)/.test(outcome),
      ),
    ).toEqual([])
    await actor.post('/operator/sign-out', { _csrf: token })
    expect((await actor.get('/operator')).status).toBe(303)
  })
})
