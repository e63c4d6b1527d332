import type { TestSandbox } from '../../support/processes/test-sandbox.ts'
import { median } from '../measuring/statistics.ts'

/** When the client sent its signed request and had received its answer, in Unix milliseconds, by idempotency key. */
export type ClientTimes = ReadonlyMap<string, { readonly sentAt: number; readonly receivedAt: number }>

/**
 * Parts between two timestamps of ledger or client. A timestamp in the ledger is the start of the transaction that wrote it,
 * so each part includes the commit of the part before.
 */
const PARTS = [
  ['validate, quote, verify (API)', 'sent', 'accepted'],
  ['accept, queue, claim, check again', 'accepted', 'called'],
  ['provider', 'called', 'sealed'],
  ['seal, sign', 'sealed', 'signed'],
  ['settle: broadcast, mined, receipt read', 'signed', 'finished'],
  ['commit, wake, respond', 'finished', 'received'],
  ['whole call', 'sent', 'received'],
] as const

type Moment = (typeof PARTS)[number][1 | 2]

/** Returns the median milliseconds of each part of the paid calls. */
export async function readLedgerPhases(
  sandbox: TestSandbox,
  clientTimes: ClientTimes,
): Promise<ReadonlyMap<string, number>> {
  const rows = await sandbox.sql<Record<Exclude<Moment, 'sent' | 'received'> | 'key', string>>(
    `SELECT idempotency_key AS key, extract(epoch FROM accepted_at) * 1000 AS accepted,
       extract(epoch FROM upstream_attempts.started_at) * 1000 AS called,
       extract(epoch FROM upstream_attempts.finished_at) * 1000 AS sealed,
       extract(epoch FROM settlements.signed_at) * 1000 AS signed, extract(epoch FROM jobs.finished_at) * 1000 AS finished
     FROM jobs JOIN upstream_attempts ON upstream_attempts.job_id = jobs.id
     JOIN settlements ON settlements.authorization_id = jobs.authorization_id
     WHERE idempotency_key = ANY($1)`,
    [[...clientTimes.keys()]],
  )
  const calls = rows.map(({ key, ...moments }) => {
    const client = clientTimes.get(key)
    return { ...moments, sent: client?.sentAt, received: client?.receivedAt }
  })
  const between = (from: Moment, to: Moment) => median(calls.map((call) => Number(call[to]) - Number(call[from])))
  return new Map(PARTS.map(([name, from, to]) => [name, between(from, to)]))
}
