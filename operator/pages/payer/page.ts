import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { MoneyStore } from '#shared/adapters/postgres/console/money-store.ts'
import { isUuid, linksAround, listPlace } from '../../rendering/list-position.ts'
import { addPage, notFound } from '../../rendering/page.ts'

export interface PayerPageDependencies {
  readonly money: MoneyStore
}

const ADDRESS = /^0x[0-9a-f]{40}$/
const PAGE_SIZE = 25

/** Adds the page of a payer: open work, exposure, debts, spend, last calls and permits that were submitted for them. */
export function addPayerPages(app: FastifyInstance, { money }: PayerPageDependencies): void {
  addPage(app, {
    path: '/operator/payers/:payer',
    query: z.object(listPlace(isUuid)),
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
          calls: calls.entries,
          isFirst: calls.previous === null,
          around: linksAround(`/operator/payers/${address}`, {}, calls),
        },
      }
    },
  })
}
