import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { MoneyStore } from '#shared/ledger/console/money-store.ts'
import type { ResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { CALL_STATES, criteriaOf, lenientCallParameters } from '../../rendering/call-criteria.ts'
import { isUuid, linksAround, listPosition } from '../../rendering/list-position.ts'
import { addPage, notFound } from '../../rendering/page.ts'
import { boundsOf, utcDay } from '../../rendering/utc-day.ts'
import { timelineOf } from './timeline.ts'
import { verdictOf } from './verdict.ts'

export interface PaymentPageDependencies {
  readonly money: MoneyStore
  readonly resolutions: ResolutionStore
  readonly now: () => Date
}

const PAGE_SIZE = 50
/** A call has at most one review or debt, and rarely a settlement that needs a person. */
const SHOWN_ITEMS = 10
const UNKNOWN = 'The ledger has no call with this id.'

/** Adds the list of calls, and the page of one with everything that is known about its money. */
export function addPaymentPages(app: FastifyInstance, { money, resolutions, now }: PaymentPageDependencies): void {
  addPage(app, {
    path: '/operator/payments',
    query: z.object({
      ...lenientCallParameters,
      from: utcDay,
      until: utcDay,
      ...listPosition(isUuid),
    }),
    read: async ({ query: { after, before, ...filters } }) => {
      const { from, until, ...parameters } = filters
      const filter = { ...criteriaOf(parameters), ...boundsOf({ from, until }) }
      const calls = await money.listCalls(filter, { limit: PAGE_SIZE, after, before })
      return {
        title: 'Payments',
        view: 'payment/payments',
        data: {
          calls: calls.entries,
          filters,
          states: CALL_STATES,
          csv: csvOf(filters),
          around: linksAround('/operator/payments', filters, calls),
        },
      }
    },
  })
  addPage(app, {
    path: '/operator/payments/:id',
    query: z.object({}),
    read: async ({ params }) => {
      const id = z.guid().safeParse(params.id)
      const payment = id.success ? await money.readPayment(id.data) : null
      if (!payment) return notFound(UNKNOWN)
      const items = await resolutions.openItems({ jobId: payment.jobId }, { limit: SHOWN_ITEMS, after: null })
      return {
        title: `Call ${payment.jobId}`,
        view: 'payment/payment',
        data: { payment, timeline: timelineOf(payment, now()), verdict: verdictOf(payment), items: items.entries },
      }
    },
  })
}

/** Returns the parameters of the CSV of the same calls. */
function csvOf(filters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return new URLSearchParams(given).toString()
}
