import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { MoneyStore } from '#shared/ledger/console/money-store.ts'
import { type Finding, MOST_FINDINGS } from '#shared/operators/findings.ts'
import { ADDRESS } from '../../rendering/call-criteria.ts'
import { addPage, moved } from '../../rendering/page.ts'

export interface SearchPageDependencies {
  readonly money: MoneyStore
}

/** Adds the search: any id leads to its page; a list appears only when it belongs to more than one thing. */
export function addSearchPages(app: FastifyInstance, { money }: SearchPageDependencies): void {
  addPage(app, {
    path: '/operator/search',
    query: z.object({ q: z.string().trim().catch('') }),
    read: async ({ query: { q } }) => {
      const findings = q === '' ? [] : await money.findById(q)
      const [first] = findings
      if (first && findings.length === 1) return moved(pathOf(first))
      // An address that never paid can be blocked on its page.
      const address = q.toLowerCase()
      if (!first && ADDRESS.test(address)) return moved(pathOf({ kind: 'payer', id: address }))
      return {
        title: 'Search',
        view: 'search/search',
        data: {
          isEmpty: q === '',
          isCut: findings.length >= MOST_FINDINGS,
          findings: findings.map((finding) => ({ ...finding, href: pathOf(finding) })),
        },
      }
    },
  })
}

function pathOf({ kind, id }: Pick<Finding, 'kind' | 'id'>): string {
  return kind === 'job' ? `/operator/payments/${id}` : `/operator/payers/${id}`
}
