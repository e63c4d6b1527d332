import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { addPage } from '../../rendering/page.ts'

export interface AuditPageDependencies {
  readonly actions: Pick<OperatorStore, 'readActions' | 'readAuditHead'>
}

const PAGE_SIZE = 50
const filter = z
  .string()
  .trim()
  .max(300)
  .transform((text) => (text === '' ? undefined : text))
  .optional()

/** Adds the list of everything that operators did. */
export function addAuditPages(app: FastifyInstance, { actions }: AuditPageDependencies): void {
  addPage(app, {
    path: '/operator/audit',
    query: z.object({
      operator: filter,
      subject: filter,
      action: filter,
      before: z
        .string()
        .regex(/^\d{1,18}$/)
        .transform(BigInt)
        .optional(),
    }),
    read: async ({ query: { before, ...filters } }) => {
      const [head, read] = await Promise.all([
        actions.readAuditHead(),
        actions.readActions(filters, { before: before ?? null, limit: PAGE_SIZE }),
      ])
      return {
        title: 'Audit',
        view: 'audit/audit',
        data: {
          ...read,
          head,
          filters,
          // Actions are read from the newest on, which is where the way back leads.
          previous: before === undefined ? null : linkTo(filters, null),
          next: read.next === null ? null : linkTo(filters, read.next),
        },
      }
    },
  })
}

function linkTo(filters: Readonly<Record<string, string | undefined>>, before: bigint | null): string {
  const parameters = new URLSearchParams(before === null ? {} : { before: before.toString() })
  for (const [name, value] of Object.entries(filters)) if (value !== undefined) parameters.set(name, value)
  return `/operator/audit?${parameters.toString()}`
}
