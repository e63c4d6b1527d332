import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startBrowser, type TestBrowser, type Visitor } from '../../support/browser/browser.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

describe.skipIf(!havePrograms('chromium'))('a live page of the console', () => {
  let console: TestConsole
  let browser: TestBrowser
  let origin: string
  let visitor: Visitor

  beforeAll(async () => {
    ;[console, browser] = await Promise.all([startTestConsole(), startBrowser()])
    await console.app.listen({ host: '127.0.0.1', port: 0 })
    origin = `http://127.0.0.1:${(console.app.server.address() as AddressInfo).port}`
    visitor = await browser.open(origin)
    await visitor.page.goto('/operator')
    await visitor.page.getByLabel('Account').fill('actor')
    await visitor.page.getByLabel('Password').fill(TEST_PASSWORD)
    await visitor.page.getByRole('button', { name: 'Sign in' }).click()
    await visitor.page.getByRole('heading', { name: 'Now', exact: true }).waitFor()
  })
  afterAll(async () => {
    await browser.close()
    await console.close()
  })

  const report = (instance: string) =>
    console.ledger.sql(
      `INSERT INTO process_reports (instance, kind, started_at, seen_at, report)
       VALUES ($1, 'worker', now(), now() + interval '1 hour', '{"version": "0", "keys": {}, "configurationRevision": null}')`,
      [instance],
    )

  it('shows what has changed without being opened again, and leaves the search field alone', async () => {
    const { page, problems } = visitor
    await page.getByText('No worker is running').waitFor()
    await page.evaluate('globalThis.isSamePage = true')
    await page.getByRole('searchbox').fill('half of an id')
    await report('first')
    await page.getByText('1 worker and').waitFor()
    expect(await page.getByText('No worker is running').count()).toBe(0)
    await report('second')
    await page.getByText('2 workers and').waitFor()
    expect(await page.evaluate('globalThis.isSamePage')).toBe(true)
    expect(await page.getByRole('searchbox').inputValue()).toBe('half of an id')
    expect(await page.evaluate('document.activeElement.id')).toBe('search')
    expect(problems).toEqual([])
  })

  it('leads to the sign-in when the session ends, and back to the page', async () => {
    const { page } = visitor
    await console.ledger.sql('DELETE FROM operator_sessions')
    await page.waitForURL('**/operator/sign-in?next=%2Foperator')
    expect(visitor.problems).toEqual([])
  })

  it('opens from a link on another site with the session that is open', async () => {
    const { page } = visitor
    await page.getByLabel('Account').fill('actor')
    await page.getByLabel('Password').fill(TEST_PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor()
    // The same server under a name that is another site to the browser.
    const elsewhere = await page.context().newPage()
    await elsewhere.route('http://another.test/', (route) =>
      route.fulfill({ contentType: 'text/html', body: `<a href="${origin}/operator/audit">the audit</a>` }),
    )
    await elsewhere.goto('http://another.test/')
    await elsewhere.getByRole('link').click()
    await elsewhere.getByRole('heading', { name: 'Audit', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'Now', exact: true }).waitFor()
  })
})
