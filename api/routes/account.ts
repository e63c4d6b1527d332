import { setImmediate } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { csvLines } from '#shared/csv/csv-lines.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AccountReceipt, AccountStore, DailySpend } from '#shared/ledger/account/account-store.ts'
import type { UnpaidCall, UnpaidCalls } from '#shared/ledger/account/read-unpaid-calls.ts'
import type { AccountPage } from '#shared/ledger/position.ts'
import { type AtomicAmount, atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { RECEIPT_TYPE, type ReceiptSecret, receiptToken } from '#shared/payment/receipt.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import {
  readPageQuery,
  readReceiptsQuery,
  readSpendQuery,
  type SpendQuery,
  sealCursor,
} from '../account/account-query.ts'
import type { AccountSlots } from '../account/account-slots.ts'
import { authenticateWallet, type WalletAuthentication } from '../account/authenticate-wallet.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import { acceptQuality } from '../request/headers.ts'
import type {
  accountDebtsSchema,
  accountOpenSchema,
  accountReceiptsSchema,
  accountSpendSchema,
} from '../schemas/account.ts'

/** Receipts that are signed before other requests get their turn. */
const SIGNED_TOGETHER = 10

export interface AccountDependencies {
  readonly account: WalletAuthentication & { readonly accountStore: AccountStore; readonly slots: AccountSlots }
  readonly receiptSecrets: readonly ReceiptSecret[]
  readonly signer: StatementSigner
  readonly limitRate: RateLimiter
  readonly isDependencyFailure: (error: unknown) => boolean
}

/** One route: reads its query before the wallet signs in, so that a mistake in it does not use up a signature. */
interface AccountRoute<Query> {
  readonly path: string
  readonly readQuery: (query: unknown) => Query
  readonly answer: (address: string, query: Query, request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
}

/**
 * Adds what a wallet may read of its own calls after signing in: receipts with their tokens, spend, debts and open calls.
 * No request, result or media is among it. The wallet comes from the signature, never from the URL.
 */
export function addAccountRoutes(app: FastifyInstance, dependencies: AccountDependencies): void {
  const { accountStore: store } = dependencies.account
  addRoute(app, dependencies, {
    path: '/v1/account/receipts',
    readQuery: readReceiptsQuery,
    answer: async (address, query) =>
      await receiptList(dependencies, address, await store.readReceipts(address, query)),
  })
  addRoute(app, dependencies, {
    path: '/v1/account/spend',
    readQuery: (query) => readSpendQuery(query, dependencies.account.now()),
    answer: (address, query, request, reply) => answerSpend(store, address, query, request, reply),
  })
  addRoute(app, dependencies, {
    path: '/v1/account/debts',
    readQuery: readPageQuery,
    answer: async (address, query) => debtList(address, await store.readDebts(address, query)),
  })
  addRoute(app, dependencies, {
    path: '/v1/account/open',
    readQuery: readPageQuery,
    answer: async (address, query) => openList(address, await store.readOpenCalls(address, query)),
  })
}

function addRoute<Query>(
  app: FastifyInstance,
  { account, limitRate, isDependencyFailure }: AccountDependencies,
  { path, readQuery, answer }: AccountRoute<Query>,
): void {
  app.get(path, {
    onRequest: async (request, reply) => limitRate(request, reply, 'openai'),
    handler: async (request, reply) => {
      const query = readQuery(request.query)
      try {
        const { address, newSession } = await authenticateWallet(account, path, request.headers)
        // Set before the query: also a failure brings the session, since the signature is used up.
        if (newSession !== null) reply.header('x-account-session', newSession)
        const body = await account.slots(address, () => answer(address, query, request, reply))
        return await reply.header('cache-control', 'private, no-store').send(body)
      } catch (error) {
        throw isDependencyFailure(error) ? new AppError('account_unavailable', { cause: error }) : error
      }
    },
  })
}

/** Each receipt is what `GET /v1/receipts/{id}` returns, so it can be saved and verified as it is. */
async function receiptList(
  { receiptSecrets: [newest], signer }: AccountDependencies,
  payer: string,
  { entries, next }: AccountPage<AccountReceipt>,
): Promise<z.infer<typeof accountReceiptsSchema>> {
  if (!newest) throw new Error('no receipt secret is configured')
  const data: z.infer<typeof accountReceiptsSchema>['data'] = []
  for (const { receipt, idempotencyKey } of entries) {
    data.push({
      receipt: { ...receipt, signature: signer.signDetached(receipt, RECEIPT_TYPE) },
      receipt_token: receiptToken(receipt.id, newest),
      idempotency_key: idempotencyKey,
    })
    // A hundred signatures take 15 ms, in which other callers would wait.
    if (data.length % SIGNED_TOGETHER === 0) await setImmediate()
  }
  return { object: 'list', payer, data, ...pageEnd(next) }
}

async function answerSpend(
  store: AccountStore,
  payer: string,
  { from, to, format, period }: SpendQuery,
  { headers: { accept } }: FastifyRequest,
  reply: FastifyReply,
): Promise<string | z.infer<typeof accountSpendSchema>> {
  const rows = await store.readSpend(payer, period)
  if (rows === 'too_long')
    throw new AppError('account_unavailable', {
      message: `The days from ${from} to ${to} take too long to add up at the moment. Nothing was charged; ask for fewer days, or retry later.`,
      param: 'from',
    })
  const prefersCsv = acceptQuality(accept, 'text/csv') > acceptQuality(accept, 'application/json')
  if (format === 'csv' || (format === undefined && prefersCsv)) {
    reply.headers({
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': `attachment; filename="farebox-spend-${from}-${to}.csv"`,
    })
    return spendCsv(rows)
  }
  const total = atomicAmount(rows.reduce((sum, { charge }) => sum + charge, 0n))
  return {
    object: 'account_spend',
    payer,
    currency: 'USDC',
    from,
    to,
    calls: rows.reduce((sum, { calls }) => sum + calls, 0),
    total_atomic: total.toString(),
    total_usdc: dollarsFromAtomic(total),
    data: rows.map(({ charge, ...row }) => ({ ...row, ...amounts('charge', charge) })),
  }
}

function debtList(payer: string, debts: UnpaidCalls): z.infer<typeof accountDebtsSchema> {
  return {
    ...totals(payer, debts),
    data: debts.entries.map((call) => ({
      ...unpaidCall(call),
      ...amounts('charge', call.charge ?? call.quotedMaximum),
    })),
    ...pageEnd(debts.next),
  }
}

function openList(payer: string, open: UnpaidCalls): z.infer<typeof accountOpenSchema> {
  return {
    ...totals(payer, open),
    data: open.entries.map((call) => ({
      ...unpaidCall(call),
      state: call.state as z.infer<typeof accountOpenSchema>['data'][number]['state'],
      ...amounts('at_most', call.charge ?? call.quotedMaximum),
    })),
    ...pageEnd(open.next),
  }
}

function totals(payer: string, { calls, total }: UnpaidCalls) {
  return { object: 'list', payer, currency: 'USDC', calls, ...amounts('total', total) } as const
}

function unpaidCall({ idempotencyKey, requestId, operation, model, acceptedAt }: UnpaidCall) {
  return {
    idempotency_key: idempotencyKey,
    request_id: requestId,
    operation,
    model,
    accepted_at: acceptedAt.toISOString(),
  }
}

function amounts<Name extends string>(name: Name, amount: AtomicAmount) {
  return { [`${name}_atomic`]: amount.toString(), [`${name}_usdc`]: dollarsFromAtomic(amount) } as Record<
    `${Name}_atomic` | `${Name}_usdc`,
    string
  >
}

function pageEnd(next: AccountPage<unknown>['next']) {
  return { has_more: next !== null, next_cursor: next && sealCursor(next) }
}

const COLUMNS = ['date', 'model', 'operation', 'calls', 'charge_usdc', 'charge_atomic']

/** Returns the rows as CSV with a header (RFC 4180). Names cannot become formulas. */
function spendCsv(rows: readonly DailySpend[]): string {
  const lines = rows.map(({ date, model, operation, calls, charge }) => [
    date,
    model,
    operation,
    calls.toString(),
    dollarsFromAtomic(charge),
    charge.toString(),
  ])
  return csvLines([COLUMNS, ...lines])
}
