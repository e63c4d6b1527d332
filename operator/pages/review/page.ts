import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { RESOLUTION_OUTCOMES, RESOLVABLE_ITEMS, type ResolutionOutcome } from '#shared/jobs/resolution.ts'
import type { ResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { allowedOutcomes, type ItemName, type ItemRecord, parseItemName, versionOf } from '#shared/operators/item.ts'
import { type CheckedDecision, checkDecision, LONGEST_REASON, resolveItem } from '#shared/operators/resolve-item.ts'
import type { RefundReader } from '#shared/payment/refund.ts'
import { ADDRESS } from '../../rendering/call-criteria.ts'
import { linksAround, listPosition } from '../../rendering/list-position.ts'
import { addAction, addPage, asked, done, notFound, refused } from '../../rendering/page.ts'

const STATES = {
  review: 'The evidence about this payment is not enough to decide whether it was charged.',
  unproven: 'A transaction may have charged the payer; nothing proves that it did or did not.',
  lost: 'The result was released, and a reorganization removed its charge from the chain.',
  surplus: 'A settlement that had failed succeeded after all: the payer was charged too much.',
  unknown: 'The chain shows that this payment was settled, and the ledger has no settlement of it.',
  owed: 'The work is done and its charge could not be settled. The payer is refused until they pay.',
} as const satisfies Record<ItemRecord['state'], string>

/** What outcomes are called in the console. */
const OUTCOME_LABELS = {
  paid_outside: 'paid outside',
  refunded: 'refunded',
  written_off: 'written off',
  forgiven: 'forgiven',
  re_served: 'result served',
} as const satisfies Record<ResolutionOutcome, string>

const OUTCOMES = {
  refunded: 'A final transfer on chain returned the amount. The caller’s next request names its transaction.',
  paid_outside: 'You and the payer settled the amount by other means.',
  written_off: 'The service bears the amount. Nothing is sent to the payer.',
  re_served: 'The caller’s next request gets the stored result, without a charge.',
  forgiven: 'The amount need not be paid.',
} as const satisfies Record<ResolutionOutcome, string>

const DEBT_OUTCOMES = {
  ...OUTCOMES,
  paid_outside: 'The payer paid by other means, and may buy again.',
  forgiven: 'The amount need not be paid, and the payer may buy again.',
  written_off: 'It leaves this list. The payer still owes it, and is refused until they pay.',
} as const satisfies Record<ResolutionOutcome, string>

export interface ReviewPageDependencies {
  readonly resolutions: ResolutionStore
  readonly refunds: RefundReader
}

const PAGE_SIZE = 50
const UNKNOWN = 'The ledger has no item with this id.'
const payerFilter = z.string().trim().toLowerCase().regex(ADDRESS).optional().catch(undefined)

/** Adds the list of items that need a person, and the page of each with the form that ends it. */
export function addReviewPages(app: FastifyInstance, { resolutions, refunds }: ReviewPageDependencies): void {
  addPage(app, {
    path: '/operator/review',
    query: z.object({
      kind: z.enum(RESOLVABLE_ITEMS).optional().catch(undefined),
      payer: payerFilter,
      ...listPosition((id) => parseItemName(id) !== null),
    }),
    read: async ({ query: { after, before, ...filters } }) => {
      const items = await resolutions.openItems(filters, { limit: PAGE_SIZE, after, before })
      return {
        title: 'Needs a person',
        view: 'review/items',
        data: {
          items: items.entries.map((item) => ({ ...item, explanation: explainItem(item) })),
          filters,
          kinds: RESOLVABLE_ITEMS,
          around: linksAround('/operator/review', filters, items),
        },
      }
    },
  })
  addPage(app, {
    path: '/operator/review/:item',
    query: z.object({}),
    read: async ({ params }) => {
      const item = await findItem(resolutions, params.item)
      if (!item) return notFound(UNKNOWN)
      return { title: titleOf(item), view: 'review/item', data: describeItem(item) }
    },
  })
  addAction(app, {
    path: '/operator/review/:item/resolve',
    page: '/operator/review/:item',
    fields: z.object({
      outcome: z.enum(RESOLUTION_OUTCOMES, 'Choose how it was ended.'),
      reason: z.string(),
      refund_transaction: z.string().trim().default(''),
      confirmed: z.string().max(100).default(''),
    }),
    run: async ({ params, fields }, author) => {
      const name = parseItemName(params.item)
      if (!name) return notFound(UNKNOWN)
      const { outcome, reason, refund_transaction: refundTransaction, confirmed } = fields
      const [dependencies, decision] = [
        { store: resolutions, refunds },
        { outcome, reason, refundTransaction },
      ]
      // What cannot be taken back takes two steps: the first one ends nothing.
      const resolved =
        confirmed === ''
          ? await checkDecision(dependencies, name, decision)
          : await resolveItem(dependencies, name, decision, author, confirmed)
      if (resolved.outcome === 'possible') return asked(askToConfirm(resolved, refundTransaction))
      if (resolved.outcome === 'not_found') return notFound(UNKNOWN)
      if (resolved.outcome === 'refused')
        return resolved.field === null
          ? refused(resolved.sentence)
          : refused('Nothing was changed.', { [resolved.field]: resolved.sentence })
      return done(`The ${spaced(resolved.item.kind)} is ended: ${OUTCOME_LABELS[outcome]}.`, pageOf(params.item))
    },
  })
}

async function findItem(store: Pick<ResolutionStore, 'findItem'>, text: string): Promise<ItemRecord | null> {
  const name: ItemName | null = parseItemName(text)
  return name && (await store.findItem(name))
}

function describeItem(item: ItemRecord) {
  const allowed = allowedOutcomes(item)
  return {
    item,
    explanation: explainItem(item),
    allowed: allowed.map((outcome) => ({
      outcome,
      label: OUTCOME_LABELS[outcome],
      meaning: explainOutcome(item, outcome),
    })),
    action: `${pageOf(item.id)}/resolve`,
    fields: [
      {
        name: 'outcome',
        label: 'How it was ended',
        type: 'select',
        value: '',
        options: [
          { value: '', label: 'Choose' },
          ...allowed.map((outcome) => ({ value: outcome, label: OUTCOME_LABELS[outcome] })),
        ],
        isRequired: true,
      },
      ...(allowed.includes('refunded')
        ? [
            {
              name: 'refund_transaction',
              label: 'Transaction of the refund',
              maximum: 66,
              hint: 'Only of a refund: a final transfer of exactly this amount to the payer.',
            },
          ]
        : []),
      { name: 'reason', label: 'Reason', type: 'textarea', isRequired: true, maximum: LONGEST_REASON },
    ],
  }
}

/** Returns the page that names what is about to be ended, how, for which amount and payer. */
function askToConfirm({ item, resolution: { outcome, reason } }: CheckedDecision, refundTransaction: string) {
  const hidden = { outcome, reason, refund_transaction: refundTransaction, confirmed: versionOf(item) }
  return {
    title: `End this ${spaced(item.kind)}?`,
    view: 'review/confirm',
    data: {
      item,
      reason,
      refundTransaction,
      label: OUTCOME_LABELS[outcome],
      meaning: explainOutcome(item, outcome),
      page: pageOf(item.id),
      fields: Object.entries(hidden).map(([name, value]) => ({ name, label: name, type: 'hidden', value })),
    },
  }
}

function pageOf(item: string): string {
  return `/operator/review/${encodeURIComponent(item)}`
}

function titleOf({ kind }: ItemRecord): string {
  return {
    review: 'Call in review',
    settlement: 'Settlement',
    unknown_settlement: 'Settlement without a record',
    debt: 'Debt',
  }[kind]
}

function spaced(name: string): string {
  return name.replaceAll('_', ' ')
}

/** Explains to an operator why an item needs them. */
function explainItem({ state }: Pick<ItemRecord, 'state'>): string {
  return STATES[state]
}

/** Says what an outcome means for the payer and the service. */
function explainOutcome({ kind }: Pick<ItemRecord, 'kind'>, outcome: ResolutionOutcome): string {
  if (kind === 'debt') return DEBT_OUTCOMES[outcome]
  return kind === 'settlement' && outcome === 'written_off'
    ? 'The service bears the amount; the payer keeps the result.'
    : OUTCOMES[outcome]
}
