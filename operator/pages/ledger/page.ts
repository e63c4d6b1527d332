import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { csvLines } from '#shared/csv/csv-lines.ts'
import type { CallFilter } from '#shared/ledger/console/list-calls.ts'
import type { MoneyStore } from '#shared/ledger/console/money-store.ts'
import type { Period } from '#shared/ledger/console/read-days.ts'
import type { Earned, ModelDay } from '#shared/ledger/reports/margin.ts'
import { callParameters, criteriaOf } from '../../rendering/call-criteria.ts'
import { addDownload, addPage } from '../../rendering/page.ts'
import { beginningOf, boundsOf, DAY_MS, dayOf, utcDay } from '../../rendering/utc-day.ts'
import { CALL_COLUMNS, callCells, DAY_COLUMNS, dayCells } from './csv-rows.ts'
import { stateOf, sumOfMargins, totalOf, withResult } from './day-result.ts'

export interface LedgerPageDependencies {
  readonly money: MoneyStore
  readonly now: () => Date
}

const SHOWN_DAYS = 31
const MOST_DAYS = 366
const period = z.object({ from: utcDay, until: utcDay })
/** A part that is not readable is an error here: a file of other calls than those meant would be taken for them. */
const exported = z.object({
  from: z.iso.date().optional(),
  until: z.iso.date().optional(),
  ...callParameters,
})

/** Adds the ledger day by day, that of each model, and its CSV files. */
export function addLedgerPages(app: FastifyInstance, { money, now }: LedgerPageDependencies): void {
  addPage(app, {
    path: '/operator/ledger',
    query: period,
    read: async ({ query }) => {
      const shown = periodOf(query, now())
      const [read, models] = await Promise.all([money.readDays(shown), money.readModelDays(shown)])
      const days = read.map(withResult)
      return {
        title: 'Ledger',
        view: 'ledger/ledger',
        data: {
          days: days.map((day) => ({ ...day, state: stateOf(day) })),
          total: totalOf(days),
          models: smallestFirst(groupsOf(models, ({ model }) => model)),
          end: shown.until > now() ? null : shown.until.toISOString(),
          ...shownDays(shown),
          older: linkTo(shown, -1),
          newer: shown.until > now() ? null : linkTo(shown, 1),
        },
      }
    },
  })
  // Of any name: models that are not offered any more were charged once.
  addPage(app, {
    path: '/operator/models/:model',
    query: period,
    read: async ({ params: { model }, query }) => {
      const shown = periodOf(query, now())
      const days = await money.readModelDays(shown, model)
      return {
        title: `Model ${model}`,
        view: 'ledger/model',
        data: {
          model,
          total: sumOfMargins(days),
          days: groupsOf(days, ({ day }) => day),
          deployments: smallestFirst(groupsOf(days, ({ deployment }) => deployment)),
          ...shownDays(shown),
        },
      }
    },
  })
  addDownload(app, {
    path: '/operator/ledger/days.csv',
    query: period,
    read: async ({ query }) => {
      const shown = periodOf(query, now())
      const days = (await money.readDays(shown)).map(withResult)
      const { from, until } = shownDays(shown)
      return file(`days-${from}-${until}`, csvLines([DAY_COLUMNS, ...days.map(dayCells)]))
    },
  })
  addDownload(app, {
    path: '/operator/ledger/calls.csv',
    query: exported,
    read: async ({ query: { from, until, ...parameters } }) => {
      const calls = renderCalls(money, { ...boundsOf({ from, until }), ...criteriaOf(parameters) })
      // Without a bound, the list that this is the file of has none either.
      return file(`calls-${from ?? 'first'}-${until ?? 'last'}`, Readable.from(calls))
    },
  })
}

async function* renderCalls(money: MoneyStore, filter: CallFilter): AsyncGenerator<string> {
  yield csvLines([CALL_COLUMNS])
  for await (const calls of money.exportCalls(filter)) yield csvLines(calls.map(callCells))
}

/** Returns the days from `from` to `until`, both inclusive; without bounds, the last month until today. */
function periodOf({ from, until }: z.infer<typeof period>, now: Date): Period {
  const last = until ?? (from === undefined ? dayOf(now) : dayOf(earliest(beginningOf(from, SHOWN_DAYS - 1), now)))
  const end = beginningOf(last, 1)
  const start = from === undefined ? beginningOf(last, 1 - SHOWN_DAYS) : beginningOf(from)
  const longest = new Date(end.getTime() - MOST_DAYS * DAY_MS)
  return { from: start >= end ? beginningOf(last) : start < longest ? longest : start, until: end }
}

function earliest(left: Date, right: Date): Date {
  return left < right ? left : right
}

/** Returns the sums of margins by what names them, in the order of their first ones. */
function groupsOf(days: readonly ModelDay[], nameOf: (day: ModelDay) => string) {
  return [...Map.groupBy(days, nameOf)].map(([name, margins]) => ({ name, ...sumOfMargins(margins) }))
}

function smallestFirst<Group extends Earned>(groups: readonly Group[]): readonly Group[] {
  return groups.toSorted((one, other) => (one.marginAtomic < other.marginAtomic ? -1 : 1))
}

/** Returns a period's days, both inclusive, alone and as parameters of links. */
function shownDays({ from, until }: Period) {
  const days = { from: dayOf(from), until: dayOf(shifted(until, -1)) }
  return { ...days, parameters: new URLSearchParams(days).toString() }
}

/** Returns the link to the period of the same length before or after this one. */
function linkTo({ from, until }: Period, direction: 1 | -1): string {
  const days = ((until.getTime() - from.getTime()) / DAY_MS) * direction
  const parameters = new URLSearchParams({ from: dayOf(shifted(from, days)), until: dayOf(shifted(until, days - 1)) })
  return `/operator/ledger?${parameters.toString()}`
}

function shifted(moment: Date, days: number): Date {
  return new Date(moment.getTime() + days * DAY_MS)
}

function file(name: string, body: string | NodeJS.ReadableStream) {
  return { fileName: `farebox-${name}.csv`, contentType: 'text/csv; charset=utf-8', body }
}
