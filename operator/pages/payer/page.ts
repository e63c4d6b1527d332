import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { ControlStore } from '#shared/ledger/configuration/control-store.ts'
import type { MoneyStore } from '#shared/ledger/console/money-store.ts'
import { isEndOfBlock } from '#shared/operators/configuration.ts'
import { ADDRESS } from '../../rendering/call-criteria.ts'
import { isUuid, linksAround, listPosition } from '../../rendering/list-position.ts'
import { addAction, addPage, done, notFound } from '../../rendering/page.ts'
import { beginningOf } from '../../rendering/utc-day.ts'

export interface PayerPageDependencies {
  readonly money: MoneyStore
  readonly controls: ControlStore
}

const reason = z.string().trim().min(1, 'Say why: it is kept with the change.').max(1000)
/** The end of a block, inclusive; empty for one without an end. */
const until = z.union([
  z.literal('').transform(() => null),
  z.iso
    .date()
    .transform((day) => beginningOf(day, 1))
    .refine(isEndOfBlock, 'Today or a later day, before 9999-12-31.'),
])

const NO_ADDRESS = 'This is not the address of a payer.'
const PAGE_SIZE = 25
/** `npm run payers -- list` prints all. */
const SHOWN_BLOCKED = 500

/**
 * Adds the list of blocked payers and the page of each address: open work, exposure, debts, spend and last calls. One that the ledger has never seen has a page too, since it may be blocked.
 */
export function addPayerPages(app: FastifyInstance, { money, controls }: PayerPageDependencies): void {
  addPage(app, {
    path: '/operator/payers',
    query: z.object({}),
    read: async () => {
      const blocked = await controls.readBlockedPayers()
      return {
        title: 'Blocked payers',
        view: 'payer/blocked',
        data: { blocked: blocked.slice(0, SHOWN_BLOCKED), total: blocked.length },
      }
    },
  })
  addPage(app, {
    path: '/operator/payers/:payer',
    query: z.object(listPosition(isUuid)),
    read: async ({ params, query: { after, before } }) => {
      const address = params.payer.toLowerCase()
      if (!ADDRESS.test(address)) return notFound(NO_ADDRESS)
      const [payer, control] = await Promise.all([money.readPayer(address), controls.readPayerControl(address)])
      const title = `Payer ${address}`
      if (!payer) return { title, view: 'payer/unknown', data: { address, control } }
      const calls = await money.listPayerCalls(address, { limit: PAGE_SIZE, after, before })
      return {
        title,
        view: 'payer/payer',
        data: {
          payer,
          control,
          calls: calls.entries,
          isFirst: calls.previous === null,
          around: linksAround(`/operator/payers/${address}`, {}, calls),
        },
      }
    },
  })
  const addSwitch = (verb: 'block' | 'unblock') =>
    addAction(app, {
      path: `/operator/payers/:payer/${verb}`,
      page: '/operator/payers/:payer',
      fields: z.object({ reason, until: until.optional() }),
      run: async ({ params, fields: entered }, author) => {
        const payer = params.payer.toLowerCase()
        if (!ADDRESS.test(payer)) return notFound(NO_ADDRESS)
        const isBlocked = verb === 'block'
        const change = { payer, isBlocked, until: entered.until ?? null, reason: entered.reason }
        const { outcome } = await controls.controlPayer(author, change)
        const location = `/operator/payers/${payer}`
        if (outcome === 'unchanged') return done(`Nothing was changed: it is ${verb}ed already.`, location)
        const what = isBlocked
          ? 'New payments are refused; what was accepted is served.'
          : 'Payments are accepted again.'
        return done(`${what} All APIs apply this within 2 seconds.`, location)
      },
    })
  addSwitch('block')
  addSwitch('unblock')
}
