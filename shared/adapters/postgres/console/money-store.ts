import type { MoneyStore } from '#shared/operators/money-store.ts'
import type { Pool } from '../pool.ts'
import { exportCalls } from './export-calls.ts'
import { findById } from './find-by-id.ts'
import { listCalls, listPayerCalls } from './list-calls.ts'
import { readDays } from './read-days.ts'
import { readPayer } from './read-payer.ts'
import { readPayment } from './read-payment.ts'

/** Creates what the console reads of calls and their money, over one pool. */
export function createMoneyStore(pool: Pool): MoneyStore {
  return {
    findById: (id) => findById(pool, id),
    readPayment: (jobId) => readPayment(pool, jobId),
    listCalls: (filter, page) => listCalls(pool, filter, page),
    readPayer: (payer) => readPayer(pool, payer),
    listPayerCalls: (payer, page) => listPayerCalls(pool, payer, page),
    readDays: (period) => readDays(pool, period),
    exportCalls: (filter) => exportCalls(pool, filter),
  }
}
