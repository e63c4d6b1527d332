import { Readable } from 'node:stream'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createOperatorStore, type OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Role } from '#shared/operators/operator-account.ts'
import { isPassword } from '#shared/operators/password.ts'
import { main } from '../../../infra/commands/operators/main.ts'
import { startUpkeep } from '../../../operator/sessions/upkeep.ts'
import { type ConsoleVisitor, visitConsole } from '../../support/console/console-visitor.ts'
import { readCsrfToken } from '../../support/console/read-markup.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const SESSION = 'operator_session'
const AUTHOR = { operator: 'tester', source: 'command' } as const
const LOGGER = { info: () => undefined, warn: () => undefined }

/** Sends the sign-in form from a browser. */
const send = async (visitor: ConsoleVisitor, fields: Readonly<Record<string, string>>) =>
  await visitor.post('/operator/sign-in', {
    password: TEST_PASSWORD,
    _csrf: readCsrfToken((await visitor.get('/operator/sign-in')).body),
    ...fields,
  })

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)
const row = (action: string, today: number) => `(not signed in) session.${action} (no such account) 192.0.2.30 ${today}`

describe('sessions of operators', () => {
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
        expect(cookies).toEqual([
          expect.stringMatching(/^__Host-operator_notice=.*; Path=\/; HttpOnly; Secure; SameSite=Strict$/),
        ])
        // What only a TLS connection to this very host can have set: browsers take the prefix with nothing else.
        expect([...actor.cookies.keys()]).toEqual([
          '__Host-operator_session',
          expect.stringMatching(/^__Host-operator_device_[0-9a-f]{16}$/),
          '__Host-operator_notice',
        ])
        actor.cookies.set(SESSION, actor.cookies.get(`__Host-${SESSION}`) ?? '')
        actor.cookies.delete(`__Host-${SESSION}`)
        expect((await actor.get('/operator/account')).status).toBe(303)
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

  describe('a browser that has signed in before', () => {
    const ADDRESS = '192.0.2.20'
    const DEVICE = /^operator_device_/
    /** Returns a browser in which `name` signed in once, from another address, and signed out. */
    async function knownTo(name: string, address = ADDRESS): Promise<ConsoleVisitor> {
      const earlier = visitConsole(console.app, '192.0.2.21')
      await earlier.signIn(name, TEST_PASSWORD)
      const visitor = visitConsole(console.app, address)
      for (const [cookie, value] of earlier.cookies) if (DEVICE.test(cookie)) visitor.cookies.set(cookie, value)
      return visitor
    }
    const lockOut = async (address = ADDRESS) =>
      await console.ledger.sql(
        `INSERT INTO failed_sign_ins (operator, address) SELECT name, $1 FROM generate_series(1, 60) n,
           unnest(ARRAY['actor', 'reader']) AS name`,
        [address],
      )
    afterEach(clear)

    it('enters after 1,000 wrong sign-ins from its address, and no other one does until their time', async () => {
      const [known, unknown] = [await knownTo('actor'), visitConsole(console.app, ADDRESS)]
      const token = readCsrfToken((await unknown.get('/operator/sign-in')).body)
      const statuses: number[] = []
      for (let guess = 0; guess < 1000; guess += 1) {
        const name = guess % 2 === 0 ? 'actor' : `invented-${guess}`
        const { status } = await unknown.post('/operator/sign-in', { name, password: `guess ${guess}`, _csrf: token })
        statuses.push(status)
      }
      expect(new Set(statuses.slice(30))).toEqual(new Set([429]))
      const refused = await send(unknown, { name: 'actor' })
      expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([429, true])
      expect((await send(known, { name: 'actor' })).status).toBe(303)
      // The sign-in of the known one forgives nobody else.
      expect((await send(unknown, { name: 'actor' })).status).toBe(429)
      await console.ledger.sql("UPDATE failed_sign_ins SET failed_at = now() - interval '901 seconds'")
      expect((await send(unknown, { name: 'actor' })).status).toBe(303)
    })

    it('gets a new cookie with each sign-in', async () => {
      const visitor = await knownTo('actor')
      const cookie = () => [...visitor.cookies].find(([name]) => DEVICE.test(name))
      const before = cookie()
      await send(visitor, { name: 'actor' })
      expect(cookie()?.[0]).toBe(before?.[0])
      expect(cookie()?.[1]).not.toBe(before?.[1])
    })

    it('is a stranger again after ten wrong passwords, for as long as strangers are', async () => {
      const visitor = await knownTo('actor')
      await lockOut()
      for (let guess = 0; guess < 10; guess += 1)
        expect((await send(visitor, { name: 'actor', password: 'a wrong one' })).status).toBe(422)
      expect((await send(visitor, { name: 'actor' })).status).toBe(429)
    })

    it('makes no limit of its address stricter', async () => {
      const visitor = await knownTo('actor')
      for (let guess = 0; guess < 9; guess += 1) await send(visitor, { name: 'actor', password: 'a wrong one' })
      expect((await trySignIn({}, ADDRESS)).status).toBe(303)
    })

    it.each<[string, (visitor: ConsoleVisitor) => Promise<void> | void]>([
      [
        'that is of another account',
        async (visitor) => {
          const [cookie] = [...(await knownTo('reader')).cookies].filter(([name]) => DEVICE.test(name))
          const own = [...visitor.cookies.keys()].find((name) => DEVICE.test(name))
          visitor.cookies.set(String(own), String(cookie?.[1]))
        },
      ],
      [
        'that it changed',
        (visitor) => {
          for (const [name, value] of visitor.cookies)
            if (DEVICE.test(name)) {
              const [text, mac] = value.split('.')
              const changed = Buffer.from(`${Date.now()} x`).toString('base64url')
              visitor.cookies.set(name, `${text === changed ? '' : changed}.${mac}`)
            }
        },
      ],
      [
        'from before the password changed',
        async () => void (await console.ledger.sql('UPDATE operators SET password_changed_at = now()')),
      ],
    ])('is a stranger with a cookie %s', async (_title, spoil) => {
      const visitor = await knownTo('actor')
      await spoil(visitor)
      await lockOut()
      expect((await send(visitor, { name: 'actor' })).status).toBe(429)
    })
  })

  describe('a failed sign-in', () => {
    it('is counted for the /64 of an IPv6 host, which has all of its addresses', async () => {
      const own = await startTestConsole()
      try {
        const guess = async (index: number) => {
          const visitor = visitConsole(own.app, `2001:db8::${(index + 1).toString(16)}`)
          const token = readCsrfToken((await visitor.get('/operator/sign-in')).body)
          return (await visitor.post('/operator/sign-in', { name: `n-${index}`, password: 'x', _csrf: token })).status
        }
        const statuses: number[] = []
        for (const index of upTo(21)) statuses.push(await guess(index))
        expect(statuses).toEqual([...upTo(20).map(() => 422), 429])
      } finally {
        await own.close()
      }
    })

    it('is in audit and metrics, by number where there are many, and never by the name that was entered', async () => {
      // Numbers are those of one process since midnight.
      const own = await startTestConsole()
      try {
        const visitor = visitConsole(own.app, '192.0.2.30')
        const token = readCsrfToken((await visitor.get('/operator/sign-in')).body)
        for (let guess = 0; guess < 140; guess += 1)
          await visitor.post('/operator/sign-in', { name: `secret-${guess}`, password: 'x', _csrf: token })
        await visitConsole(own.app, '192.0.2.31')
          .signIn('actor', 'a wrong password')
          .catch(() => undefined)
        const rows = await own.ledger.sql<{ row: string }>(
          `SELECT concat_ws(' ', operator, action, subject, details ->> 'address', details ->> 'today') AS row
           FROM operator_actions WHERE subject = 'actor' OR action LIKE 'session.%' ORDER BY id`,
        )
        expect(rows.map((recorded) => recorded.row)).toEqual([
          'test operator.add actor',
          ...upTo(20).map((today) => row('refuse', today)),
          ...[...upTo(20), 100].map((today) => row('throttle', today)),
          '(not signed in) session.refuse actor 192.0.2.31 1',
        ])
        const metrics = await own.metrics.metrics()
        for (const [outcome, count] of [
          ['opened', 0],
          ['refused', 21],
          ['throttled', 120],
        ] as const)
          expect(metrics).toContain(`farebox_operator_sign_ins_total{outcome="${outcome}"} ${count}\n`)
        expect(JSON.stringify(await own.ledger.sql('SELECT * FROM operator_actions'))).not.toContain('secret-')
      } finally {
        await own.close()
      }
    })
  })
})

describe('accounts of operators', () => {
  let ledger: TestLedger
  let accounts: OperatorStore
  beforeEach(async () => {
    ledger = await createTestLedger()
    accounts = createOperatorStore(ledger.pool)
  })

  afterEach(() => ledger.close())

  const addMaria = (role: Role) =>
    accounts.addAccount({ name: 'maria', role, passwordHash: 'hash' }, { operator: 'boss', source: 'command' })

  /** Runs the command with a database. Returns its exit code and what it printed. */
  async function run(commandLine: string, input = '') {
    const [printed, complained]: [string[], string[]] = [[], []]
    vi.spyOn(console, 'log').mockImplementation((text: string) => void printed.push(text))
    vi.spyOn(console, 'error').mockImplementation((text: string) => void complained.push(text))
    try {
      const exitCode = await main(commandLine.split(' '), { DATABASE_URL: ledger.url }, Readable.from([input]))
      return { exitCode, output: printed.join('\n'), errors: complained.join('\n') }
    } finally {
      vi.restoreAllMocks()
    }
  }
  const actionsOn = (subject: string) =>
    ledger.sql<{ operator: string; action: string }>(
      'SELECT operator, source, action, details FROM operator_actions WHERE subject = $1 ORDER BY id',
      [subject],
    )
  const passwordOf = async (name: string) => {
    const [row] = await ledger.sql<{ hash: string }>('SELECT password_hash AS hash FROM operators WHERE name = $1', [
      name,
    ])
    return row?.hash ?? null
  }
  describe('the first account', () => {
    it('is created once, however many consoles start together, and never again', async () => {
      const upkeeps = ['first password of all', 'second password of all'].map((initialPassword) =>
        startUpkeep({ store: createOperatorStore(ledger.pool), initialPassword, logger: LOGGER }),
      )
      await Promise.all(upkeeps.map(({ ready }) => ready))
      await Promise.all(upkeeps.map((upkeep) => upkeep.stop()))
      expect(await accounts.listAccounts()).toMatchObject([{ name: 'operator', role: 'act', disabledAt: null }])
      expect(await actionsOn('operator')).toHaveLength(1)
      const kept = await passwordOf('operator')
      const again = startUpkeep({
        store: createOperatorStore(ledger.pool),
        initialPassword: 'another password',
        logger: LOGGER,
      })
      await again.ready
      await again.stop()
      expect(await passwordOf('operator')).toBe(kept)
    })
  })

  describe('npm run operators', () => {
    it('adds an account with a generated password that is stored as a hash', async () => {
      const { exitCode, output } = await run('add maria act --as boss --json')
      expect(exitCode).toBe(0)
      const { password, ...added } = JSON.parse(output) as { password: string }
      expect(added).toEqual({ name: 'maria', role: 'act' })
      expect(password).toMatch(/^[\w-]{24}$/)
      expect(await isPassword(password, await passwordOf('maria'))).toBe(true)
      expect(await isPassword(`${password}x`, await passwordOf('maria'))).toBe(false)
      expect(await actionsOn('maria')).toEqual([
        { operator: 'boss', source: 'command', action: 'operator.add', details: { role: 'act' } },
      ])
    })

    it('reads a password from standard input, and refuses a short one', async () => {
      expect(await run('add short read --password-stdin', 'too short\n')).toMatchObject({
        exitCode: 1,
        errors: 'A password has 15 to 256 characters.',
      })
      const { exitCode, output } = await run('add piped read --password-stdin', "a password of one's own\n")
      expect({ exitCode, output }).toEqual({ exitCode: 0, output: 'Added piped, who reads.' })
      expect(await isPassword("a password of one's own", await passwordOf('piped'))).toBe(true)
    })

    it('ends the sessions of an account whose password it changes, or that it disables', async () => {
      // One who reads: the last account that may act is not disabled.
      await addMaria('read')
      for (const command of ['password maria', 'disable maria']) {
        await ledger.sql(
          `INSERT INTO operator_sessions (token_sha256, operator, expires_at)
         VALUES (repeat('a', 64), 'maria', now() + interval '1 hour')`,
        )
        expect((await run(command)).exitCode).toBe(0)
        expect(await ledger.sql("SELECT FROM operator_sessions WHERE operator = 'maria'")).toEqual([])
      }
      expect(await run('list')).toMatchObject({ output: expect.stringMatching(/maria +read +disabled/) as string })
      expect((await run('enable maria')).exitCode).toBe(0)
      expect((await actionsOn('maria')).map(({ action }) => action)).toEqual([
        'operator.add',
        'operator.password',
        'operator.disable',
        'operator.enable',
      ])
    })

    it.each([
      ['add maria read', 1, 'There is an account maria already.'],
      ['role nobody read', 1, 'There is no account nobody.'],
      ['disable nobody', 1, 'There is no account nobody.'],
      ['add Maria read', 2, 'NAME must have lower-case letters'],
      ['add maria admin', 2, 'ROLE must be one of read, act'],
      ['add maria', 2, "missing required argument 'role'"],
      ['disable maria read', 2, 'too many arguments'],
      ['forget maria', 2, "unknown command 'forget'"],
      ['list --password-stdin', 2, "unknown option '--password-stdin'"],
      ['list --as Boss', 2, '--as must have lower-case letters'],
    ])('refuses %s with exit code %i', async (commandLine, exitCode, sentence) => {
      await addMaria('act')
      const answer = await run(commandLine)
      expect(answer).toMatchObject({ exitCode, output: '' })
      expect(answer.errors).toContain(sentence)
    })

    it('says that it needs a database', async () => {
      vi.spyOn(console, 'error').mockImplementation(() => undefined)
      expect(await main(['list'], {})).toBe(2)
      vi.restoreAllMocks()
    })
  })

  describe('the accounts that may act', () => {
    it('are never all taken away, also when two are disabled at the same time', async () => {
      await ledger.sql("UPDATE operators SET disabled_at = now() WHERE role = 'act'")
      for (const name of ['left', 'right'])
        await accounts.addAccount({ name, role: 'act', passwordHash: 'never used' }, AUTHOR)
      // Holds both up until each has begun.
      const blocker = await ledger.pool.connect()
      await blocker.query('BEGIN')
      await blocker.query("UPDATE operators SET role = role WHERE name IN ('left', 'right')")
      const changes = [accounts.disableAccount('left', AUTHOR), accounts.changeRole('right', 'read', AUTHOR)]
      const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
      await until(async () => (await ledger.sql(waiting)).length === 2)
      await blocker.query('COMMIT')
      blocker.release()
      const outcomes = await Promise.all(changes)
      expect(outcomes.sort()).toEqual(['changed', 'last_actor'])
      const able = (await accounts.listAccounts()).filter(
        ({ role, disabledAt }) => role === 'act' && disabledAt === null,
      )
      expect(able).toHaveLength(1)
      expect((await run(`disable ${able[0]?.name}`)).errors).toContain('is the last account that may act')
    })
  })

  describe('a sign-in whose password was checked before', () => {
    it.each([
      ['the password changed', 'changed', (name: string) => accounts.changePassword(name, 'new hash', AUTHOR)],
      ['the account was disabled', 'disabled', (name: string) => accounts.disableAccount(name, AUTHOR)],
    ])('opens no session after %s', async (_title, name, change) => {
      const store = createOperatorStore(ledger.pool)
      await accounts.addAccount({ name, role: 'read', passwordHash: 'old hash' }, AUTHOR)
      await change(name)
      const session = { operator: name, address: '192.0.2.9', device: null, lifetimeSeconds: 60, replaces: null }
      const tokenSha256 = 'c'.repeat(64)
      expect(await store.openSession({ ...session, passwordHash: 'old hash', tokenSha256 })).toBe(false)
      expect(await store.useSession(tokenSha256, 60)).toBe(null)
    })

    it('opens one while the account is as it was', async () => {
      const store = createOperatorStore(ledger.pool)
      await accounts.addAccount({ name: 'prompt', role: 'read', passwordHash: 'hash' }, AUTHOR)
      const session = { operator: 'prompt', address: '192.0.2.9', device: null, lifetimeSeconds: 60, replaces: null }
      const tokenSha256 = 'd'.repeat(64)
      expect(await store.openSession({ ...session, passwordHash: 'hash', tokenSha256 })).toBe(true)
      expect(await store.useSession(tokenSha256, 60)).toEqual({ name: 'prompt', role: 'read' })
    })
  })
})
