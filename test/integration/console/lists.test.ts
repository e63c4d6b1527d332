import { glob, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { inDebt, inReview, lostSettlement, unknownSettlement } from '../../support/ledger/open-item.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const PAGES = fileURLToPath(new URL('../../../operator/pages/', import.meta.url))
/** As many as a page of the review has, and more: together 120. */
const [FULL, MORE] = ['0x'.padEnd(42, 'f'), '0x'.padEnd(42, 'e')] as `0x${string}`[]
const [REVIEWED_OF_FULL, REVIEWED_OF_MORE] = [50, 70]
const SINCE = '2026-03-01T10:00:00Z'
/** Pages of a list without an end, which the days of the ledger are. */
const MOST_PAGES = 12

interface ListedPage {
  readonly address: string
  readonly ids: readonly string[]
}

/** A list of the console, with its filters and what is stored of it. */
interface ListOfConsole {
  readonly template: string
  readonly address: string
  /** The id of an entry, in the rows of the table. */
  readonly id: RegExp
  /** Selects the ids of all entries; `null` for a list without an end. */
  readonly stored: string | null
  /** What the links of the first page towards its end and its beginning say. */
  readonly words: readonly [next: string, previous: string]
  /** Whether the way back leads to the beginning at once. */
  readonly returnsAtOnce?: boolean
}

const items = { template: 'review/items', id: /\/operator\/review\/([^"]+)"/g, words: ['Newer →', '← Older'] } as const
const calls = { id: /\/operator\/payments\/([^"?]+)"/g, words: ['Older →', '← Newer'] } as const
const payments = { ...calls, template: 'payment/payments' } as const
const actions = {
  template: 'audit/audit',
  id: /\?subject=([^"]+)"/g,
  words: ['Older →', '← Newer'],
  returnsAtOnce: true,
} as const
const inReviewOf = (payer = '%') =>
  `SELECT 'review:' || id AS id FROM jobs WHERE state = 'review' AND payer LIKE '${payer}'`
const callsWhere = (condition: string) => `SELECT id FROM jobs WHERE ${condition}`
const LISTS: readonly ListOfConsole[] = [
  {
    ...items,
    address: '/operator/review',
    stored: `${inReviewOf()} UNION ALL SELECT 'debt:' || id FROM jobs WHERE is_owed
      UNION ALL SELECT 'settlement:' || id FROM settlements WHERE state = 'lost'
      UNION ALL SELECT 'unknown_settlement:' || network || ':' || payer || ':' || nonce FROM unknown_settlements`,
  },
  { ...items, address: '/operator/review?kind=review', stored: inReviewOf() },
  { ...items, address: `/operator/review?payer=${FULL}`, stored: inReviewOf(FULL) },
  { ...items, address: `/operator/review?kind=review&payer=${MORE}`, stored: inReviewOf(MORE) },
  { ...payments, address: '/operator/payments', stored: callsWhere('true') },
  { ...payments, address: '/operator/payments?state=review', stored: callsWhere("state = 'review'") },
  {
    ...payments,
    address: '/operator/payments?state=completed&from=2026-03-01&until=2026-03-01',
    stored: callsWhere("state = 'completed' AND accepted_at::date = '2026-03-01'"),
  },
  {
    ...payments,
    address: '/operator/payments?by=ended&from=2026-03-01&until=2026-03-01',
    stored: callsWhere("finished_at::date = '2026-03-01'"),
  },
  {
    ...calls,
    template: 'payer/payer',
    address: `/operator/payers/${FULL}`,
    stored: callsWhere(`payer = '${FULL}' AND finished_at IS NOT NULL`),
  },
  {
    template: 'configuration/overview',
    address: '/operator/catalog',
    id: /\/operator\/catalog\/publications\/(\d+)"/g,
    stored: "SELECT number::text AS id FROM publications WHERE kind = 'catalog'",
    words: ['Older →', '← Newer'],
  },
  {
    ...actions,
    address: '/operator/audit?action=test.list',
    stored: "SELECT subject AS id FROM operator_actions WHERE action = 'test.list'",
  },
  {
    ...actions,
    address: '/operator/audit?operator=lister&action=test.list',
    stored: "SELECT subject AS id FROM operator_actions WHERE operator = 'lister'",
  },
  {
    template: 'ledger/ledger',
    address: '/operator/ledger?from=2026-03-01&until=2026-03-04',
    id: /<time datetime="(\d{4}-\d{2}-\d{2})"/g,
    stored: null,
    words: ['Older →', '← Newer'],
  },
]

const of = (payer: `0x${string}`) => newTestJob({ authorization: testAuthorization({ payer }) })

describe('a list of the console', () => {
  let console: TestConsole
  let reader: ConsoleVisitor

  beforeAll(async () => {
    console = await startTestConsole()
    const { ledger } = console
    for (let count = 0; count < REVIEWED_OF_FULL; count += 1) await inReview(ledger, of(FULL as `0x${string}`))
    for (let count = 0; count < REVIEWED_OF_MORE; count += 1) await inReview(ledger, of(MORE as `0x${string}`))
    for (const make of [inDebt, lostSettlement]) for (let count = 0; count < 2; count += 1) await make(ledger)
    await unknownSettlement(ledger)
    for (let count = 0; count < 54; count += 1) await jobInState(ledger, 'completed', of(FULL as `0x${string}`))
    // Many of one moment, whose order is that of their ids, and others a microsecond apart.
    await ledger.sql(
      `UPDATE jobs SET accepted_at = timestamptz '${SINCE}' + place * interval '1 microsecond',
         finished_at = CASE WHEN finished_at IS NULL THEN NULL ELSE timestamptz '${SINCE}' + place * interval '1 microsecond' END
       FROM (SELECT id AS numbered, (row_number() OVER (ORDER BY id)) / 40 AS place FROM jobs) AS places WHERE id = numbered`,
    )
    const configuration = createConfigurationStore(ledger.pool)
    for (let count = 0; count < 40; count += 1)
      await configuration.importFile(
        { operator: 'importer', source: 'command' },
        { kind: 'catalog', content: { models: {} }, reason: `number ${count}` },
      )
    await ledger.sql(
      `INSERT INTO operator_actions (operator, source, action, subject)
       SELECT 'lister', 'command', 'test.list', 'subject-' || n FROM generate_series(1, 101) AS n`,
    )
    reader = await console.signIn('read')
  })
  afterAll(() => console.close())

  /** Reads a page, with the ids in its list, which is its last table. */
  async function read(address: string, { id }: ListOfConsole) {
    const { status, body } = await reader.get(address)
    if (status !== 200) throw new Error(`${address} answers ${status}: ${body}`)
    const table = body.slice(body.lastIndexOf('<tbody>'))
    const ids = [...new Set([...table.matchAll(id)].map(([, found = '']) => decodeURIComponent(found)))]
    const link = (rel: string) =>
      new RegExp(`<a href="([^"]+)" rel="${rel}">([^<]+)</a>`)
        .exec(body)
        ?.slice(1)
        .map((part) => part.replaceAll('&amp;', '&'))
    return { ids, next: link('next'), previous: link('prev') }
  }

  const storedIds = async (select: string) => (await console.ledger.sql<{ id: string }>(select)).map(({ id }) => id)
  /** Follows the links of a direction to their end. */
  async function follow(list: ListOfConsole, from: string, direction: 'next' | 'previous'): Promise<ListedPage[]> {
    const pages: ListedPage[] = []
    for (let address: string | undefined = from; address !== undefined && pages.length < MOST_PAGES;) {
      const page = await read(address, list)
      pages.push({ address, ids: page.ids })
      address = page[direction]?.[0]
    }
    return pages
  }

  it.each(LISTS)(
    'has each entry of $address once on the pages that its links lead to, and the same pages on the way back',
    async (list) => {
      const forwards = await follow(list, list.address, 'next')
      const ids = forwards.flatMap((page) => page.ids)
      expect(ids).toHaveLength(new Set(ids).size)
      const stored = list.stored === null ? ids : await storedIds(list.stored)
      expect(ids.toSorted()).toEqual(stored.toSorted())
      const last = forwards.at(-1)
      if (!last) throw new Error('a list has a page')
      const backwards = await follow(list, last.address, 'previous')
      const expected = list.returnsAtOnce && forwards.length > 1 ? [forwards[0], last] : forwards
      // The days go on to today, which is before the first page.
      const shown = backwards.toReversed().slice(list.stored === null ? -expected.length : 0)
      expect(shown.map((page) => page.ids)).toEqual(expected.map((page) => page?.ids))
    },
  )

  it.each(LISTS)('says of the links of $address which way they lead', async (list) => {
    const first = await read(list.address, list)
    if (!first.next) return
    const second = await read(first.next[0] ?? '', list)
    expect([first.next[1], second.previous?.[1]]).toEqual(list.words)
  })

  it('shows its beginning for a place that cannot be read, or behind which nothing is left', async () => {
    const [list] = LISTS
    if (!list) throw new Error('there are lists')
    const first = await read('/operator/review', list)
    for (const place of [
      'nonsense',
      '1_nonsense',
      '1_review:1',
      '9999999999999999_review:00000000-0000-0000-0000-000000000000',
    ])
      for (const side of ['after', 'before'])
        expect([place, (await read(`/operator/review?${side}=${encodeURIComponent(place)}`, list)).ids.length]).toEqual(
          [place, side === 'before' && place.startsWith('9999') ? 50 : first.ids.length],
        )
  })

  it('is one of those that this file follows', async () => {
    const paged: string[] = []
    for await (const file of glob('**/*.eta', { cwd: PAGES }))
      if ((await readFile(`${PAGES}${file}`, 'utf8')).includes("'@pager'")) paged.push(file.replace(/\.eta$/, ''))
    expect(paged.toSorted()).toEqual([...new Set(LISTS.map(({ template }) => template))].toSorted())
  })
})
