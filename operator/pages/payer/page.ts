import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { ControlStore } from '#shared/adapters/postgres/configuration/control-store.ts'
import type { MoneyStore } from '#shared/adapters/postgres/console/money-store.ts'
import { isEndOfBlock } from '#shared/operators/configuration.ts'
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

const ADDRESS = /^0x[0-9a-f]{40}$/
const PAGE_SIZE = 25

/** Adds the page of a payer: open work, exposure, debts, spend, last calls and permits that were submitted for them. */
export function addPayerPages(app: FastifyInstance, { money, controls }: PayerPageDependencies): void {
  addPage(app, {
    path: '/operator/payers/:payer',
    query: z.object(listPosition(isUuid)),
    read: async ({ params, query: { after, before } }) => {
      const address = params.payer.toLowerCase()
      const payer = ADDRESS.test(address) ? await money.readPayer(address) : null
      if (!payer) return notFound('The ledger has no payer with this address.')
      const calls = await money.listPayerCalls(address, { limit: PAGE_SIZE, after, before })
      return {
        title: `Payer ${address}`,
        view: 'payer/payer',
        data: {
          payer,
          control: await controls.readPayerControl(address),
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
        if (!ADDRESS.test(payer)) return notFound('This is not the address of a payer.')
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
