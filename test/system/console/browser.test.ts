import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findBarriers, findOverflow } from '../../support/browser/accessibility.ts'
import { DESKTOP, PHONE, startBrowser, type TestBrowser, type Visitor } from '../../support/browser/browser.ts'
import { findForeignMarkup } from '../../support/browser/foreign-markup.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'
import { acceptTestJob, called, claimTestJob, jobInState } from '../../support/ledger/job-in-state.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const PAGE = (body: string) => `<!doctype html><html lang="en"><title>A page</title><main><h1>A page</h1>${body}</main>`
const isNow = (url: URL) => url.pathname === '/operator'
/** Returns a page with charts in which all values of the first series are 4321. */
const withOtherValues = (html: string) =>
  html.replace(/(&quot;values&quot;:)\[([^\]]*)\]/, (_all, name: string, numbers: string) => {
    return `${name}[${numbers.replaceAll(/\d+/g, '4321')}]`
  })
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"

/** The tests of the console trust these: each must find what it is there for. */
describe.skipIf(!havePrograms('chromium'))('the browser of the tests', () => {
  let browser: TestBrowser
  let server: Server
  let origin: string
  let served = ''

  beforeAll(async () => {
    server = createServer((_request, response) =>
      response.setHeader('content-security-policy', POLICY).setHeader('content-type', 'text/html').end(served),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser.close()
    server.closeAllConnections()
    server.close()
  })

  const visit = async <T>(body: string, look: (visitor: Awaited<ReturnType<TestBrowser['open']>>) => Promise<T>) => {
    served = PAGE(body)
    const visitor = await browser.open(origin, { viewport: PHONE })
    try {
      await visitor.page.goto('/')
      return await look(visitor)
    } finally {
      await visitor.close()
    }
  }

  it('finds nothing wrong with a plain page', async () => {
    await visit('<p>Text</p><a href="/here">A link</a>', async ({ page, problems }) => {
      expect(await findBarriers(page)).toEqual([])
      expect(await findOverflow(page)).toEqual([])
      expect(await findForeignMarkup(page)).toEqual([])
      expect(problems).toEqual([])
    })
  })

  it('reports a barrier', async () => {
    expect(await visit('<input>', ({ page }) => findBarriers(page))).toEqual([expect.stringMatching(/^label /)])
  })

  it('reports a page that is wider than its window', async () => {
    expect(await visit(`<pre>${'long '.repeat(60)}</pre>`, ({ page }) => findOverflow(page))).toContainEqual(
      expect.stringMatching(/^<pre>/),
    )
  })

  it.each([
    '<img alt="" src="//cdn.test/x.png">',
    '<p onclick="x()">Text</p>',
    '<script>let x</script>',
    '<a href="javascript:x()">A link</a>',
    '<p style="color: red">Text</p>',
    '<iframe srcdoc="x"></iframe>',
    '<div hx-get="//evil.test/"></div>',
  ])('reports markup that leads elsewhere or runs: %s', async (markup) => {
    expect(await visit(markup, ({ page }) => findForeignMarkup(page))).toEqual([markup])
  })

  it('reports a script that the policy of the page refuses', async () => {
    expect(await visit('<script>alert(1)</script>', async ({ problems }) => problems)).toEqual([
      expect.stringContaining('Content Security Policy'),
    ])
  })

  it('reports a request to another host', async () => {
    const problems = await visit('', async ({ page, problems: found }) => {
      await page.goto('http://localhost:9/').catch(() => undefined)
      return found
    })
    expect(problems[0]).toBe('asked another host: http://localhost:9/')
  })
})

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

  it('draws its charts again when their data change, and still says what is pointed at', async () => {
    const { page, problems } = visitor
    const chart = page.locator('[data-chart]').first()
    await chart.hover()
    const values = () => chart.locator('.u-value').allTextContents()
    await expect.poll(values).toContain('0 calls')
    await page.evaluate("document.querySelector('[data-chart] canvas').isSame = true")
    await page.route(isNow, async (route) => {
      const answer = await route.fetch()
      const body = withOtherValues(await answer.text())
      await route.fulfill({ response: answer, body })
    })
    await expect.poll(values).toContain('4321 calls')
    expect(await page.evaluate("document.querySelector('[data-chart] canvas').isSame")).toBe(true)
    await page.unroute(isNow)
    await expect.poll(values).toContain('0 calls')
    expect(problems).toEqual([])
  })

  it('fits a phone with amounts of hundreds and of many millions', async () => {
    const { page } = visitor
    const job = await jobInState(console.ledger, 'completed')
    await console.ledger.sql(
      'UPDATE settlements SET gas_used = 1, effective_gas_price = 1, gas_cost = 0 WHERE job_id = $1',
      [job.id],
    )
    for (const amount of ['100000000', '888888888', '999999999999999']) {
      await console.ledger.sql('UPDATE jobs SET quoted_maximum = $2, charge_amount = $2 WHERE id = $1', [
        job.id,
        amount,
      ])
      await console.ledger.sql('UPDATE settlements SET charge_amount = $2, gas_cost = $2 WHERE job_id = $1', [
        job.id,
        amount,
      ])
      for (const path of [
        '/operator/ledger',
        '/operator/payments',
        `/operator/payments/${job.id}`,
        `/operator/payers/${job.authorization.payer}`,
      ]) {
        await page.goto(path)
        await page.setViewportSize(PHONE)
        expect([amount, path, await findOverflow(page)]).toEqual([amount, path, []])
      }
    }
    await page.setViewportSize(DESKTOP)
    await page.goto('/operator')
  })

  it('draws the times of its charts in UTC on a 24-hour clock', async () => {
    const abroad = await browser.open(origin, { locale: 'en-US', timezoneId: 'America/New_York' })
    await abroad.page.addInitScript(`{
      globalThis.drawn = []
      const { fillText } = CanvasRenderingContext2D.prototype
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        globalThis.drawn.push(String(text))
        return fillText.call(this, text, ...rest)
      }
    }`)
    await abroad.page.goto('/operator/sign-in')
    await abroad.page.getByLabel('Account').fill('actor')
    await abroad.page.getByLabel('Password').fill(TEST_PASSWORD)
    await abroad.page.getByRole('button', { name: 'Sign in' }).click()
    await abroad.page.getByRole('heading', { name: 'Now', exact: true }).waitFor()
    const job = await claimTestJob(console.ledger, await acceptTestJob(console.ledger))
    const { attemptId } = await console.ledger.execution.startAttempt(job, called('drawn'), null)
    await console.ledger.sql("UPDATE upstream_attempts SET started_at = now() - interval '2 hours' WHERE id = $1", [
      attemptId,
    ])
    await abroad.page.goto('/operator/providers/drawn?window=24h')
    const drawn = () => abroad.page.evaluate<string[]>('globalThis.drawn')
    await expect.poll(drawn).toContain('UTC')
    const times = (await drawn()).filter((text) => /\d:\d|[ap]m/i.test(text))
    expect(times.length).toBeGreaterThan(0)
    expect(times.filter((text) => !/^([01]\d|2[0-3]):[0-5]\d$/.test(text))).toEqual([])
    const shown = new Set(times)
    // Hours of the whole day, of which some are after noon.
    expect([...shown].some((text) => text > '12:59')).toBe(true)
    expect(abroad.problems).toEqual([])
    await abroad.close()
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
