import { mkdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import type { ConsoleRoute } from '../../../operator/rendering/console.ts'
import { findBarriers, findOverflow, RULES_OF_APPEARANCE } from '../../support/browser/accessibility.ts'
import { DESKTOP, PHONE, startBrowser, type TestBrowser, type Visitor } from '../../support/browser/browser.ts'
import { findForeignMarkupIn } from '../../support/browser/foreign-markup.ts'
import { type Crawled, crawl, routeOf } from '../../support/console/crawl.ts'
import { populateLedger } from '../../support/console/populate-ledger.ts'
import { startTestConsole } from '../../support/console/test-console.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { openTestLedger } from '../../support/ledger/test-ledger.ts'
import { payForCall } from '../../support/payer/paid-call.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** A folder for pictures of every page, such as for the gallery of the README; none are taken without it. */
const { CONSOLE_PICTURES } = process.env
const MODES = {
  light: { viewport: DESKTOP, colorScheme: 'light' },
  dark: { viewport: DESKTOP, colorScheme: 'dark' },
  phone: { viewport: PHONE, colorScheme: 'light' },
} as const
const DEARER = '{"models":{"textmodel-3.5-flash":{"minimum_charge_usd":"0.003"}}}'
const FORMS = {
  provider: { at: '/operator/providers/open-text', subject: 'open-text' },
  queue: { at: '/operator/queues/images', subject: 'images' },
  catalog: { at: '/operator/catalog', subject: 'catalog' },
  deployments: { at: '/operator/deployments', subject: 'deployments' },
  // Of a settlement that the ledger does not know.
  payer: { at: `/operator/payers/0x${'7e'.repeat(20)}`, subject: `0x${'7e'.repeat(20)}` },
  // Of an address that never paid.
  stranger: { at: `/operator/payers/0x${'5e'.repeat(20)}`, subject: `0x${'5e'.repeat(20)}` },
} as const

describe.skipIf(!havePrograms('chromium'))('the console in Chromium', () => {
  let database: TestDatabase
  let sandbox: TestSandbox
  let browser: TestBrowser
  let origin: string
  let routes: readonly ConsoleRoute[]
  let crawled: Crawled

  beforeAll(async () => {
    database = await createTestDatabase()
    const ledger = openTestLedger(database, 4)
    await populateLedger(ledger, { calls: 10_000, withOpenJobs: false })
    await createConfigurationStore(ledger.pool).importFile(
      { operator: 'test', source: 'command' },
      { kind: 'catalog', content: { models: {} }, reason: 'An example' },
    )
    await ledger.pool.end()
    const [started, launched, listed] = await Promise.all([
      startStandaloneSandbox({ databaseUrl: database.url, operator: true, workers: 2 }),
      startBrowser(),
      startTestConsole(),
    ])
    sandbox = started
    browser = launched
    routes = listed.app.consoleRoutes
    await listed.close()
    origin = new URL(sandbox.info.operator?.url ?? '').origin
    const audio = sandbox.sample.toString('base64')
    await payForCall(sandbox, '/v1/audio/transcriptions', { model: 'speechvendor/scribe-v2', audio_base64: audio })
  })
  afterAll(async () => {
    await browser?.close()
    await sandbox?.stop()
    await database?.drop()
  })

  /** Opens a window in which the sandbox's operator is signed in, by the form. */
  const signIn = async (mode: keyof typeof MODES, options = {}): Promise<Visitor> => {
    const visitor = await browser.open(origin, { ...MODES[mode], ...options })
    const { user = '', password = '' } = sandbox.info.operator ?? {}
    await visitor.page.goto('/operator')
    await visitor.page.getByLabel('Account').or(visitor.page.locator('[name=name]')).first().fill(user)
    await visitor.page.locator('[name=password]').fill(password)
    await visitor.page.getByRole('button', { name: 'Sign in' }).click()
    await visitor.page.getByRole('heading', { name: 'Now', level: 1 }).waitFor()
    return visitor
  }

  it('has a link to every page', async () => {
    const { page, close } = await signIn('light')
    const get = async (address: string) => {
      const answer = await page.request.get(address)
      return { status: answer.status(), headers: answer.headers(), body: await answer.text() }
    }
    crawled = await crawl(get, routes, 2)
    await close()
    const paths = routes.flatMap(({ kind, path }) => (kind === 'action' ? [] : [path]))
    // The search is a form on every page.
    const unlinked = ['/operator', '/operator/search']
    expect(paths.filter((path) => !crawled.addresses.has(path) && !unlinked.includes(path))).toEqual([])
  })

  it('has pages without barriers, in light and dark and on a phone, and nothing of another host', async () => {
    const { page, problems, close } = await signIn('light')
    if (CONSOLE_PICTURES) await mkdir(CONSOLE_PICTURES, { recursive: true })
    const linked = [...crawled.addresses].flatMap(([path, addresses]) => (path.endsWith('.csv') ? [] : addresses))
    const visited = new Set(['/operator', '/operator/search?q=nothing', '/operator/no-such-page', ...linked])
    for (const address of visited) {
      const answer = await page.goto(address)
      // As it was sent: charts are drawn with styles that a script sets.
      const foreign = await findForeignMarkupIn(page, (await answer?.text()) ?? '')
      expect([address, foreign]).toEqual([address, []])
      for (const [mode, { viewport, colorScheme }] of Object.entries(MODES)) {
        await page.setViewportSize(viewport)
        await page.emulateMedia({ colorScheme })
        const barriers = await findBarriers(page, mode === 'light' ? undefined : RULES_OF_APPEARANCE)
        expect([address, mode, barriers]).toEqual([address, mode, []])
        expect([address, mode, await findOverflow(page)]).toEqual([address, mode, []])
        const name = address.replaceAll(/[^a-z0-9]+/gi, '-').slice(1, 60)
        if (CONSOLE_PICTURES) await page.screenshot({ path: `${CONSOLE_PICTURES}/${name}-${mode}.png`, fullPage: true })
      }
    }
    expect(problems).toEqual([])
    await close()
  })

  it('is used by keyboard', async () => {
    const { page, close } = await signIn('light')
    await page.goto('/operator/payments')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
    await page.keyboard.press('Tab')
    expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none'")).toBe(true)
    await close()
  })

  it('works without scripts', async () => {
    const visitor = await browser.open(origin, { javaScriptEnabled: false })
    const { user = '', password = '' } = sandbox.info.operator ?? {}
    await visitor.page.goto('/operator/audit')
    await visitor.page.locator('[name=name]').fill(user)
    await visitor.page.locator('[name=password]').fill(password)
    await visitor.page.getByRole('button', { name: 'Sign in' }).click()
    await visitor.page.getByRole('heading', { name: 'Audit', level: 1 }).waitFor()
    await visitor.page.getByRole('button', { name: 'Sign out' }).click()
    await visitor.page.getByText('You are signed out.').waitFor()
    await visitor.close()
  })

  it('reads a live page again by itself, and keeps what is being entered', async () => {
    const { page, problems, close } = await signIn('light')
    const asOf = () => page.locator('.as-of').textContent()
    const first = await asOf()
    await expect.poll(asOf).not.toBe(first)
    await page.goto('/operator/queues/text')
    await page.getByLabel('Reason').fill('half of a sent')
    const before = await asOf()
    await expect.poll(asOf).not.toBe(before)
    expect(await page.getByLabel('Reason').inputValue()).toBe('half of a sent')
    expect(problems).toEqual([])
    await close()
  })

  /** What each form is given, and the change that is recorded. Later ones follow from earlier ones. */
  const ACTIONS: readonly Readonly<{
    form: string
    at: string
    enter?: Readonly<Record<string, string>>
    action: string
    subject: string
  }>[] = [
    { ...FORMS.provider, form: '/drain', enter: { reason: 'Ill' }, action: 'deployment.drain' },
    { ...FORMS.provider, form: '/weight', enter: { weight: '7', reason: 'Less' }, action: 'deployment.weight' },
    { ...FORMS.provider, form: '/enable', enter: { reason: 'Well' }, action: 'deployment.enable' },
    { ...FORMS.queue, form: '/pause', enter: { reason: 'Upkeep' }, action: 'queue.pause' },
    { ...FORMS.queue, form: '/resume', enter: { reason: 'Done' }, action: 'queue.resume' },
    { ...FORMS.payer, form: '/block', enter: { reason: 'Theft', until: '2126-01-01' }, action: 'payer.block' },
    { ...FORMS.payer, form: '/unblock', enter: { reason: 'Cleared' }, action: 'payer.unblock' },
    { ...FORMS.stranger, form: '/block', enter: { reason: 'A warning' }, action: 'payer.block' },
    {
      ...FORMS.catalog,
      form: '/catalog/models/textmodel-3.5-flash/draft',
      enter: { minimum_charge_usd: '0.002' },
      action: 'configuration.draft',
    },
    { ...FORMS.catalog, form: '/catalog/draft', enter: { content: DEARER }, action: 'configuration.draft' },
    { ...FORMS.catalog, form: '/catalog/publish', enter: { reason: 'Dearer' }, action: 'configuration.publish' },
    { ...FORMS.deployments, form: '/deployments/draft', action: 'configuration.draft' },
    { ...FORMS.deployments, form: '/deployments/draft/discard', action: 'configuration.discard' },
  ]

  it.each(ACTIONS)('does $form at $at, and records who did it', async ({ form, at, enter = {}, action, subject }) => {
    const { page, problems, close } = await signIn('light')
    await page.goto(at)
    const shown = page.locator(`form[action$="${form}"]`)
    // Of a form that is folded up.
    const closed = page.locator('details:not([open])', { has: shown }).locator('summary')
    if ((await closed.count()) > 0) await closed.click()
    for (const [name, value] of Object.entries(enter)) await shown.locator(`[name=${name}]`).fill(value)
    await shown.getByRole('button').click()
    await page.getByRole('status').waitFor()
    expect(await findBarriers(page)).toEqual([])
    expect(problems).toEqual([])
    await close()
    const [recorded] = await sandbox.sql(
      "SELECT operator, source, action, subject, reason FROM operator_actions WHERE action <> 'session.open' ORDER BY id DESC LIMIT 1",
    )
    expect(recorded).toEqual({
      operator: 'operator',
      source: 'console',
      action,
      subject,
      reason: enter['reason'] ?? null,
    })
  })

  it('makes an earlier publication the draft', async () => {
    const { page, problems, close } = await signIn('light')
    await page.goto('/operator/catalog')
    await page.locator('a[href^="/operator/catalog/publications/"]').last().click()
    await page.getByRole('button', { name: 'Make it the draft' }).click()
    await page.getByRole('status').waitFor()
    expect(await page.locator('form[action="/operator/catalog/publish"]').count()).toBe(1)
    expect(await findBarriers(page)).toEqual([])
    expect(problems).toEqual([])
    await close()
  })

  it.each(['review', 'settlement', 'unknown_settlement', 'debt'])('ends an item: %s', async (kind) => {
    const { page, problems, close } = await signIn('light')
    await page.goto(`/operator/review?kind=${kind}`)
    await page.locator('main tbody a').first().click()
    const address = page.url()
    await page.getByRole('button', { name: 'Continue' }).click()
    // The form says what is missing.
    if (page.url() === address) await page.locator('[name=outcome]').selectOption('paid_outside')
    await page.locator('[name=reason]').fill('Paid by bank transfer')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('Nothing is ended yet').waitFor()
    for (const mode of ['light', 'phone', 'dark'] as const) {
      await page.setViewportSize(MODES[mode].viewport)
      await page.emulateMedia({ colorScheme: MODES[mode].colorScheme })
      expect([mode, await findBarriers(page), await findOverflow(page)]).toEqual([mode, [], []])
      if (CONSOLE_PICTURES)
        await page.screenshot({ path: `${CONSOLE_PICTURES}/confirm-${kind}-${mode}.png`, fullPage: true })
    }
    await page.getByRole('button', { name: 'End this item: paid outside' }).click()
    await page.getByRole('status').waitFor()
    expect(await page.getByRole('button', { name: 'Continue' }).count()).toBe(0)
    expect(await findBarriers(page)).toEqual([])
    expect(problems).toEqual([])
    await close()
  })

  it('ends an item by keyboard and without scripts, with a second key after the one that enters it', async () => {
    const { page, close } = await signIn('light', { javaScriptEnabled: false })
    await page.goto('/operator/review?kind=review')
    await page.locator('main tbody a').first().press('Enter')
    const address = page.url()
    await page.locator('[name=outcome]').selectOption('written_off')
    await page.locator('[name=reason]').fill('Too small')
    // The key that sends a form from a field, pressed twice.
    await page.locator('[name=refund_transaction]').press('Enter')
    await page.getByText('Nothing is ended yet').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Do not end it' }).press('Enter')
    await page.waitForURL(address)
    await page.locator('[name=outcome]').selectOption('written_off')
    await page.locator('[name=reason]').fill('Too small')
    await page.getByRole('button', { name: 'Continue' }).press('Enter')
    await page.getByRole('button', { name: 'End this item: written off' }).press('Enter')
    await page.getByText('Ended by operator').waitFor()
    await close()
  })

  it('refuses the second of two operators, and says who was first', async () => {
    const [first, second] = await Promise.all([signIn('light'), signIn('dark')])
    await first.page.goto('/operator/review')
    await first.page.locator('main tbody a').first().click()
    await second.page.goto(first.page.url())
    for (const { page } of [first, second]) {
      await page.locator('[name=outcome]').selectOption('paid_outside')
      await page.locator('[name=reason]').fill('Paid by bank transfer')
      await page.getByRole('button', { name: 'Continue' }).click()
    }
    for (const { page } of [first, second]) await page.getByRole('button', { name: 'End this item' }).click()
    await first.page.getByRole('status').waitFor()
    expect(await second.page.getByRole('alert').textContent()).toMatch(/^operator ended this item at /)
    await Promise.all([first.close(), second.close()])
  })

  it('shows every change with its author and reason', async () => {
    const { page, close } = await signIn('light')
    await page.goto('/operator/audit')
    const shown = await page.locator('main tbody').textContent()
    for (const text of [
      'item.resolve',
      'Paid by bank transfer',
      'deployment.drain',
      'Ill',
      'configuration.publish',
      'Dearer',
    ])
      expect(shown).toContain(text)
    await close()
  })

  it('finds a call by its id', async () => {
    const [call] = await sandbox.sql<{ request_id: string; id: string }>('SELECT id, request_id FROM jobs LIMIT 1')
    const { page, close } = await signIn('phone')
    await page.getByRole('searchbox').fill(call?.request_id ?? '')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: `Call ${call?.id}` }).waitFor()
    await close()
  })

  it('opens no page by the back button after the sign-out', async () => {
    const { page, close } = await signIn('light')
    await page.goto('/operator/payments')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('You are signed out.').waitFor()
    await page.goBack()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    await close()
  })

  it('changes the password, which ends every session', async () => {
    const [visitor, other] = [await signIn('light'), await signIn('light')]
    const { page } = visitor
    const { password = '' } = sandbox.info.operator ?? {}
    const chosen = 'a longer sentence that nobody guesses'
    // Away from a page that reads itself again: it would go to the sign-in by itself, and interrupt the visit below.
    await other.page.goto('/operator/account')
    await page.goto('/operator/account')
    await page.locator('[name=current_password]').fill(password)
    for (const name of ['new_password', 'repeated_password']) await page.locator(`[name=${name}]`).fill(chosen)
    await page.getByRole('button', { name: 'Change the password' }).click()
    await page.getByRole('status').waitFor()
    await other.page.goto('/operator/payments')
    await other.page.getByRole('button', { name: 'Sign in' }).waitFor()
    await page.locator('[name=name]').fill(sandbox.info.operator?.user ?? '')
    await page.locator('[name=password]').fill(chosen)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Now', level: 1 }).waitFor()
    await Promise.all([visitor.close(), other.close()])
  })

  it('has been seen doing every action', () => {
    const done = [
      ...ACTIONS.map(({ at, form }) =>
        /^\/(?:catalog|deployments)\//.test(form) ? `/operator${form}` : `${at}${form}`,
      ),
      '/operator/catalog/publications/1/draft',
      '/operator/review/x/resolve',
      '/operator/account/password',
      '/operator/sign-out',
      // The pages of both kinds are one.
      '/operator/deployments/publish',
      '/operator/deployments/publications/1/draft',
      '/operator/catalog/draft/discard',
    ]
    const seen = new Set(done.map((address) => routeOf(address, routes, 'action')))
    expect(routes.flatMap(({ kind, path }) => (kind === 'action' && !seen.has(path) ? [path] : []))).toEqual([])
  })
})
