import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool } from '../pool.ts'
import { readModelDays } from '../reports/margin.ts'
import { exportCalls } from './export-calls.ts'
import { findById } from './find-by-id.ts'
import { type CallFilter, listCalls, listPayerCalls } from './list-calls.ts'
import { readDays } from './read-days.ts'
import { readFailures } from './read-failures.ts'
import { readHours } from './read-hours.ts'
import { readPayer } from './read-payer.ts'
import { readPayment } from './read-payment.ts'

/** What the console reads of calls and their money. Every statement is indexed. */
export type MoneyStore = ReturnType<typeof createMoneyStore>

/** Creates what the console reads of calls and their money, over one pool. */
export function createMoneyStore(pool: Pool) {
  return {
    ...bindTo(pool, {
      findById,
      readPayment,
      listCalls,
      readPayer,
      listPayerCalls,
      readDays,
      readModelDays,
      readFailures,
      readHours,
    }),
    exportCalls: (filter: CallFilter) => exportCalls(pool, filter),
  }
}
