import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startBrowser, type TestBrowser, type Visitor } from '../support/browser/browser.ts'
import { findForeignMarkupIn } from '../support/browser/foreign-markup.ts'
import { HOSTILE_CALL, HOSTILE_STRINGS } from '../support/browser/hostile-strings.ts'
import type { ConsoleAnswer, ConsoleVisitor } from '../support/console/console-visitor.ts'
import { type Crawled, crawl } from '../support/console/crawl.ts'
import { populateConfiguration, populateLedger } from '../support/console/populate-ledger.ts'
import { startTestConsole, type TestConsole } from '../support/console/test-console.ts'
import { plantTexts } from '../support/ledger/plant-text.ts'
import { havePrograms } from '../support/processes/optional-program.ts'

/** All addresses of a route: each of the planted texts has its own page. */
const EVERY = 250
/** The actions are shared among tests, so that each has its own time: pages that price calls again are slow. */
const FORM_SHARES = 10
const isPage = (headers: ConsoleAnswer['headers']) => String(headers['content-type']).startsWith('text/html')
/** As the console escapes text. */
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
}
/**
 * Returns a page without what differs from one answer to the next: tokens, times, and the string that was sent, where it is
 * escaped. A page of a shape that was found harmless need not be parsed again.
 */
function shapeOf(body: string, sent: string): string {
  const escaped = sent.toWellFormed().replaceAll(/[&<>"'`]/g, (character) => ENTITIES[character] ?? '')
  const page = body.replaceAll(/value="[\w-]{40,}"|\d{4}-\d\d-\d\dT[\d:]+Z|\d+ (?:s|min) ago/g, '')
  return escaped.trim().length > 2
    ? page.replaceAll(escaped, '').replaceAll(encodeURIComponent(sent.toWellFormed()), '')
    : page
}
/** What a form needs so that the field with the hostile string is the only wrong one. */
const ENTERED = 'Entered by a test'

describe.skipIf(!havePrograms('chromium'))('hostile strings in the console', () => {
  let console: TestConsole
  let browser: TestBrowser
  let window: Visitor
  let actor: ConsoleVisitor
  let crawled: Crawled
  let jobIds: string[]
  let accounts: unknown[]
  /** Shapes of pages without foreign markup. */
  const seen = new Set<string>()

  const readAccounts = () =>
    console.ledger.sql('SELECT name, role, password_hash, disabled_at FROM operators ORDER BY name')

  beforeAll(async () => {
    console = await startTestConsole()
    await populateLedger(console.ledger, { calls: 50, withOpenJobs: true })
    await populateConfiguration(console.ledger, 'http://upstream.test')
    jobIds = await plantTexts(console.ledger, HOSTILE_STRINGS)
    actor = await console.signIn('act')
    accounts = await readAccounts()
    browser = await startBrowser()
    window = await browser.open('http://console.test')
  })
  afterAll(async () => {
    await browser?.close()
    await console.close()
  })

  /**
   * Returns what is wrong with answers to hostile strings, by the string or address that was sent: failures, and markup
   * that is not the console's.
   */
  const judge = async (answers: ReadonlyMap<string, ConsoleAnswer>, sentIn?: ReadonlyMap<string, string>) => {
    const wrong: string[] = []
    for (const [sent, { status, headers, body }] of answers) {
      if (status >= 500) wrong.push(`${sent}: ${status}`)
      if (body.includes('62615533')) wrong.push(`${sent}: a template was run`)
      if (!isPage(headers)) continue
      const shape = shapeOf(body, sentIn?.get(sent) ?? '')
      if (seen.has(shape)) continue
      for (const markup of await findForeignMarkupIn(window.page, body)) wrong.push(`${sent}: ${markup}`)
      seen.add(shape)
    }
    return wrong
  }

  /** Requests an address with each string in a place. */
  const requestEach = async (addressOf: (text: string) => string): Promise<string[]> => {
    const texts = new Map(HOSTILE_STRINGS.map((text) => [addressOf(text.toWellFormed()), text]))
    const answers = new Map<string, ConsoleAnswer>()
    for (const address of texts.keys()) answers.set(address, await actor.get(address))
    return await judge(answers, texts)
  }

  it('are at least 200', () => {
    expect(HOSTILE_STRINGS.length).toBeGreaterThanOrEqual(200)
  })

  it('are shown as text where payers and vendors wrote them', async () => {
    const answers = new Map<string, ConsoleAnswer>()
    const get = async (address: string) => {
      const answer = await actor.get(address)
      answers.set(address, answer)
      return answer
    }
    crawled = await crawl(get, console.app.consoleRoutes, EVERY)
    expect(await judge(answers)).toEqual([])
    const shown = [...answers.values()].map(({ body }) => body).join('')
    expect(shown).toContain('&lt;svg onload=')
  })

  it('are not formulas in a CSV', async () => {
    const files = [...crawled.addresses].filter(([path]) => path.endsWith('.csv'))
    expect(files.map(([path]) => path)).toContain('/operator/ledger/calls.csv')
    for (const [, [address = '']] of files) {
      const { body } = await actor.get(address)
      // Quoted cells keep their quotes here, so both kinds begin with a quote, a comma or a line.
      expect(body.match(/(?:^|,|\n)"?(?:[=+@\t]|\r(?!\n)).*/g) ?? []).toEqual([])
      expect(body.match(/(?:^|,|\n)"?-(?![\d.]+(?:"|,|\r|\n|$)).*/g) ?? []).toEqual([])
    }
  })

  it('are taken as text by every filter', async () => {
    const places = [...crawled.filters].flatMap(([path, names]) => [...names].map((name) => ({ path, name })))
    expect(places).toContainEqual({ path: '/operator/search', name: 'q' })
    for (const { path, name } of places)
      expect(await requestEach((text) => `${path}?${new URLSearchParams({ [name]: text }).toString()}`)).toEqual([])
  })

  it('are taken as text in every path', async () => {
    const paths = console.app.consoleRoutes.filter(({ kind, path }) => kind !== 'action' && path.includes(':'))
    for (const { path } of paths)
      expect(await requestEach((text) => path.replaceAll(/:\w+/g, () => encodeURIComponent(text)))).toEqual([])
  })

  it.each(Array.from({ length: FORM_SHARES }, (_, share) => share))(
    'are taken as text by every field of every action, share %i',
    async (share) => {
      const forms = [...crawled.forms].filter((_, index) => index % FORM_SHARES === share)
      for (const [path, { action, fields }] of forms) {
        const names = Object.keys(fields).filter(() => path !== '/operator/sign-out')
        for (const name of names) {
          const entered = Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, value || ENTERED]))
          const token = await actor.csrfToken()
          const answers = new Map<string, ConsoleAnswer>()
          for (const text of HOSTILE_STRINGS)
            answers.set(text, await actor.post(action, { ...entered, [name]: text, _csrf: token }))
          const texts = new Map(HOSTILE_STRINGS.map((text) => [text, text]))
          expect([path, name, await judge(answers, texts)]).toEqual([path, name, []])
          expect([...answers.values()].filter(({ status }) => status === 403)).toEqual([])
        }
      }
    },
  )

  it('are shown as text where operators wrote them', async () => {
    const action = [...crawled.forms.values()].find(({ fields }) => 'outcome' in fields && 'reason' in fields)?.action
    for (const [index, jobId] of jobIds.entries()) {
      const [item = ''] = /review:[0-9a-f-]{36}/.exec(decodeURIComponent(action ?? '')) ?? []
      const address = (action ?? '').replace(encodeURIComponent(item), encodeURIComponent(`review:${jobId}`))
      await actor.submit(address, { outcome: 'written_off', reason: HOSTILE_STRINGS[index] ?? '' })
    }
    const answers = new Map<string, ConsoleAnswer>()
    const get = async (address: string) => {
      const answer = await actor.get(address)
      answers.set(address, answer)
      return answer
    }
    await crawl(get, console.app.consoleRoutes, EVERY)
    expect(await judge(answers)).toEqual([])
  })

  it('change no account, and nothing that was not entered', async () => {
    expect(await readAccounts()).toEqual(accounts)
    const [{ count } = { count: '' }] = await console.ledger.sql<{ count: string }>('SELECT count(*) FROM jobs')
    expect(Number(count)).toBeGreaterThan(HOSTILE_STRINGS.length)
  })

  it('run nothing in Chromium, even without a content security policy', async () => {
    const origin = await console.app.listen({ host: '127.0.0.1', port: 0 })
    const visitor = await browser.open(origin, { bypassCSP: true })
    const calls: string[] = []
    await visitor.page.exposeFunction(HOSTILE_CALL, () => calls.push(visitor.page.url()))
    await visitor.page
      .context()
      .addCookies([...actor.cookies].map(([name, value]) => ({ name, value, url: `${origin}/operator` })))
    const payments = crawled.addresses.get('/operator/payments/:id') ?? []
    const pages = [...crawled.addresses].filter(([path]) => !path.endsWith('.csv'))
    const others = pages.flatMap(([, addresses]) => addresses.slice(0, 2))
    for (const address of new Set([...others, ...payments.slice(0, 60)])) await visitor.page.goto(address)
    expect(calls).toEqual([])
    expect(visitor.problems).toEqual([])
  })
})
