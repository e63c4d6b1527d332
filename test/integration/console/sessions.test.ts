import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { visitConsole } from '../../support/console/console-visitor.ts'
import { readCsrfToken } from '../../support/console/read-markup.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'

const SESSION = 'operator_session'

let console: TestConsole

beforeAll(async () => {
  console = await startTestConsole()
})
afterAll(() => console.close())

const clear = async () => await console.ledger.sql('DELETE FROM failed_sign_ins')

/** Sends the sign-in form from an address. Returns the answer, and the browser. */
async function trySignIn(fields: Readonly<Record<string, string>>, address: string) {
  const visitor = visitConsole(console.app, address)
  const token = readCsrfToken((await visitor.get('/operator/sign-in')).body)
  const answer = await visitor.post('/operator/sign-in', {
    name: 'actor',
    password: TEST_PASSWORD,
    _csrf: token,
    ...fields,
  })
  return { ...answer, visitor }
}

describe('a session of the console', () => {
  it('has a token that the browser did not bring, whatever it brought', async () => {
    const victim = visitConsole(console.app)
    // Somebody who can set the browser's cookies brings one of their own, with or without a session.
    const attacker = await console.signIn('read')
    for (const planted of ['chosen-by-somebody', attacker.cookies.get(SESSION) ?? '']) {
      victim.cookies.clear()
      victim.cookies.set(SESSION, planted)
      await victim.signIn('actor', TEST_PASSWORD)
      expect(victim.cookies.get(SESSION)).not.toBe(planted)
      attacker.cookies.set(SESSION, planted)
      expect((await attacker.get('/operator/account')).status).toBe(303)
    }
  })

  it('is opened by nothing that a browser has before it signs in', async () => {
    const visitor = visitConsole(console.app)
    await visitor.get('/operator/sign-in')
    expect([...visitor.cookies.keys()]).toEqual([SESSION])
    expect((await visitor.get('/operator/account')).location).toMatch(/^\/operator\/sign-in/)
  })

  it('has a cookie that no script reads and no other site sends', async () => {
    const { headers } = await trySignIn({}, '127.0.0.1')
    const cookies = [headers['set-cookie']].flat().map(String)
    expect(cookies.filter((cookie) => cookie.startsWith(SESSION))).toEqual([
      expect.stringMatching(/^operator_session=[\w-]{43}; Path=\/operator; HttpOnly; SameSite=Strict$/),
    ])
  })

  it('has cookies that no connection without TLS carries, where the console is reached over TLS', async () => {
    const secure = await startTestConsole(undefined, { OPERATOR_BASE_URL: 'https://console.example' })
    try {
      const actor = await secure.signIn('act')
      const { status, headers } = await actor.submit('/operator/queues/text/pause', { reason: 'test' })
      const cookies = [headers['set-cookie']].flat().map(String)
      expect(status).toBe(303)
      expect(cookies).toEqual([expect.stringMatching(/^operator_notice=.*; HttpOnly; Secure; SameSite=Strict$/)])
    } finally {
      await secure.close()
    }
  })

  it('is stored as a digest', async () => {
    const { cookies } = await console.signIn('act')
    const stored = await console.ledger.sql('SELECT * FROM operator_sessions')
    expect(JSON.stringify(stored)).not.toContain(cookies.get(SESSION))
  })

  it('ends with the sign-out', async () => {
    const visitor = await console.signIn('act')
    const stolen = new Map(visitor.cookies)
    await visitor.submit('/operator/sign-out')
    for (const [name, value] of stolen) visitor.cookies.set(name, value)
    expect((await visitor.get('/operator')).status).toBe(303)
  })

  it.each([
    ['an hour without a request', "last_used_at = now() - interval '61 minutes'"],
    ['twelve hours', 'expires_at = now()'],
  ])('ends after %s', async (_after, change) => {
    const visitor = await console.signIn('act')
    expect((await visitor.get('/operator')).status).toBe(200)
    await console.ledger.sql(`UPDATE operator_sessions SET ${change}`)
    expect((await visitor.get('/operator')).status).toBe(303)
  })

  it('lasts twelve hours at most', async () => {
    await console.signIn('act')
    const longer = "SELECT FROM operator_sessions WHERE expires_at > now() + interval '12 hours'"
    expect(await console.ledger.sql(longer)).toEqual([])
  })

  it.each(['UPDATE operators SET disabled_at = now()', 'DELETE FROM operator_sessions'])(
    'ends at once with: %s',
    async (statement) => {
      const visitor = await console.signIn('read')
      await console.ledger.sql(statement)
      expect((await visitor.get('/operator')).status).toBe(303)
      await console.ledger.sql('UPDATE operators SET disabled_at = NULL')
    },
  )

  it('follows a change of the role at once', async () => {
    const visitor = await console.signIn('read')
    expect((await visitor.get('/operator')).body).toContain('reads')
    await console.ledger.sql("UPDATE operators SET role = 'act' WHERE name = 'reader'")
    expect((await visitor.get('/operator')).body).toContain('may act')
    await console.ledger.sql("UPDATE operators SET role = 'read' WHERE name = 'reader'")
  })

  it.each([
    '//evil.test',
    'https://evil.test/operator',
    '/\\evil.test',
    '/operator\\@evil.test',
    '/operator@evil.test',
    '/operators',
    'javascript:alert(1)',
    '/operator\r\nLocation: https://evil.test',
    '\t//evil.test',
  ])('leads from the sign-in to no other site: %j', async (next) => {
    expect((await trySignIn({ next }, '127.0.0.1')).location).toBe('/operator')
  })
})

it('answers a path that cannot be decoded', async () => {
  const answer = await visitConsole(console.app).get('/operator/review/%E0%A4%A')
  expect(answer).toMatchObject({ status: 400, headers: { 'content-type': 'text/plain; charset=utf-8' } })
  expect(answer.body).toContain('/operator')
})

describe('signing in', () => {
  const guess = { password: 'a wrong password, of which there are many' }

  it('says the same for an unknown account, a disabled one and a wrong password', async () => {
    await console.ledger.sql("UPDATE operators SET disabled_at = now() WHERE name = 'reader'")
    const answers = await Promise.all(
      [{ name: 'nobody' }, { name: 'reader' }, guess].map((fields) => trySignIn(fields, '192.0.2.1')),
    )
    await console.ledger.sql('UPDATE operators SET disabled_at = NULL')
    const problems = answers.map(({ status, body }) => [status, /role="alert">([^<]+)/.exec(body)?.[1]])
    expect(new Set(problems.map((problem) => JSON.stringify(problem))).size).toBe(1)
    expect(problems[0]?.[0]).toBe(422)
    await clear()
  })

  it('is refused after five wrong passwords, also with the right one, and open to the owner elsewhere', async () => {
    // Sent together, as guesses are.
    const guesses = await Promise.all(Array.from({ length: 8 }, () => trySignIn(guess, '192.0.2.2')))
    expect(guesses.map(({ status }) => status).toSorted((left, right) => left - right)).toEqual([
      422, 422, 422, 422, 422, 429, 429, 429,
    ])
    const refused = await trySignIn({}, '192.0.2.2')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    expect((await trySignIn({}, '192.0.2.3')).status).toBe(303)
    await clear()
  })

  it('is refused to an address that guesses many accounts', async () => {
    await console.ledger.sql(
      "INSERT INTO failed_sign_ins (operator, address) SELECT 'name-' || n, '192.0.2.4' FROM generate_series(1, 20) n",
    )
    expect((await trySignIn({}, '192.0.2.4')).status).toBe(429)
    await clear()
  })

  it('does not lock the owner out when strangers guess from everywhere', async () => {
    expect((await trySignIn({}, '192.0.2.5')).status).toBe(303)
    await console.ledger.sql(
      "INSERT INTO failed_sign_ins (operator, address) SELECT 'actor', '198.51.100.' || n FROM generate_series(1, 60) n",
    )
    expect((await trySignIn({}, '192.0.2.6')).status).toBe(429)
    expect((await trySignIn({}, '192.0.2.5')).status).toBe(303)
    await clear()
  })

  it('is open again after the window, although guesses went on', async () => {
    await Promise.all(Array.from({ length: 6 }, () => trySignIn(guess, '192.0.2.7')))
    await console.ledger.sql("UPDATE failed_sign_ins SET failed_at = now() - interval '16 minutes'")
    expect((await trySignIn({}, '192.0.2.7')).status).toBe(303)
    await clear()
  })
})
