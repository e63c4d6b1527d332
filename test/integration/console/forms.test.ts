import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ConsoleVisitor, visitConsole } from '../../support/console/console-visitor.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'

const NEW_PASSWORD = 'another long password'

let console: TestConsole
/** A second session of the account whose password is changed. */
let other: ConsoleVisitor
beforeAll(async () => {
  console = await startTestConsole()
})
afterAll(() => console.close())

/** Returns the numbers of the subjects of the actions on a page. */
function subjectsOf(body: string): number[] {
  return [...body.matchAll(/\?subject=subject-(\d+)"/g)].map(([, n]) => Number(n))
}

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

  it('says what it did on the next page, once', async () => {
    other = await console.signIn('read')
    const visitor = await console.signIn('read')
    const fields = { current_password: TEST_PASSWORD, new_password: NEW_PASSWORD, repeated_password: NEW_PASSWORD }
    const wrong = { ...fields, repeated_password: `${NEW_PASSWORD}!` }
    expect((await visitor.submit('/operator/account/password', wrong)).body).toContain('The two new passwords differ.')
    const { status, location } = await visitor.submit('/operator/account/password', fields)
    expect({ status, location }).toEqual({ status: 303, location: '/operator/sign-in' })
    const sentence = 'Your password is changed, and every session of your account has ended.'
    // A page that reads itself again in the background does not take it.
    expect((await visitor.get('/operator/sign-in', { 'hx-request': 'true' })).body).not.toContain(sentence)
    expect((await visitor.get('/operator/sign-in')).body).toContain(sentence)
    expect((await visitor.get('/operator/sign-in')).body).not.toContain(sentence)
  })

  it('ends every session of an account with its old password', async () => {
    expect((await other.get('/operator')).status).toBe(303)
    await other.signIn('reader', NEW_PASSWORD)
    expect((await other.get('/operator')).status).toBe(200)
    await expect(visitConsole(console.app).signIn('reader', TEST_PASSWORD)).rejects.toThrow('answers 422')
  })

  it('keeps the filters of its page when it is refused', async () => {
    const visitor = await console.signIn('act')
    const { body } = await visitor.submit('/operator/account/password', { _query: 'a=1&b=%22%3E%3Cb%3E' })
    expect(body).toContain('name="_query" value="a=1&amp;b=%22%3E%3Cb%3E"')
  })

  it.each(['application/json', 'text/plain', 'multipart/form-data; boundary=x'])('is not read as %s', async (type) => {
    const visitor = await console.signIn('act')
    const { statusCode } = await console.app.inject({
      method: 'POST',
      url: '/operator/account/password',
      headers: { 'content-type': type, 'sec-fetch-site': 'same-origin' },
      cookies: Object.fromEntries(visitor.cookies),
      payload: JSON.stringify({ _csrf: await visitor.csrfToken() }),
    })
    expect(statusCode).toBe(415)
  })
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
