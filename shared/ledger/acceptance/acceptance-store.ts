import { setTimeout as delay } from 'node:timers/promises'
import { NO_ARCHIVE, type ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { CURRENT_RECEIPT, type CurrentReceiptRow, currentReceipt, HAS_RECEIPT } from '../current-receipt.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { findMedia } from '../retention/hosted-media.ts'
import { batch, LONGEST_WAIT_MS } from '../share-statements.ts'
import { findUnknownEnding, recordUnknownSettlement } from '../unknown-settlements.ts'
import { createPaymentAcceptor } from './accept-payment.ts'
import { bindKey, descriptionColumn, type KeyBinding, type KeyBindingRequest, replaceDescription } from './bind-key.ts'
import { createKnownRequestFinder, findOpenJob, hasJob } from './find-known-request.ts'
import { createNewPayersLimit } from './new-payers.ts'
import { readOutcomes } from './read-outcomes.ts'

/** Keys bound by one statement at most: a few milliseconds of work. */
const MAXIMUM_BATCH = 250

interface FreeKeyRow {
  idempotency_key: string
  expires_at: Date
}

export interface AcceptanceOptions {
  readonly budget: UnchargedBudget
  /** The limit of what payments that their payers' settled charges do not cover may have open and lost in a day. */
  readonly newPayers: AtomicAmount
}

/** The API's access to the ledger: keys, acceptance, and what callers read about their jobs. */
export type AcceptanceStore = ReturnType<typeof createAcceptanceStore>

/** Creates the API's store over one pool, and the archive of its receipts. */
export function createAcceptanceStore(
  pool: Pool,
  { budget, newPayers }: AcceptanceOptions,
  archive: ReceiptArchive = NO_ARCHIVE,
) {
  const limits = {
    budget,
    newPayers: createNewPayersLimit(newPayers, () => performance.now()),
  }
  const findKnownRequest = createKnownRequestFinder(pool)
  return {
    bindKey: createKeyBinder(pool),
    findKnownRequest,
    /** Returns what a key is bound to, as `KnownRequest` does. */
    findBinding: async (idempotencyKey: string) => (await findKnownRequest(idempotencyKey, null)).binding,
    acceptPayment: createPaymentAcceptor(pool, limits),
    markEnqueued: createEnqueuedMarker(pool),
    findReceipt: (receiptId: string) => findReceipt(pool, archive, receiptId),
    ...bindTo(pool, { replaceDescription, hasJob, findOpenJob, takePermitTurn, findPermitTurn, endPermitTurn }),
    ...bindTo(pool, { recordUnknownSettlement, findUnknownEnding, readOutcomes, readQueueAges, findMedia }),
  }
}

/**
 * Returns a receipt by its id with the current state of its settlement; the caller checks the token. Only an archived
 * receipt is read from the archive.
 */
async function findReceipt(sql: Sql, archive: ReceiptArchive, receiptId: string): Promise<CurrentReceipt | null> {
  const row = await readFirst<CurrentReceiptRow>(sql, {
    name: 'find_receipt',
    text: `SELECT ${CURRENT_RECEIPT}
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND ${HAS_RECEIPT}
     WHERE receipts.id = $1`,
    values: [receiptId],
  })
  return row ? await currentReceipt(row, archive) : null
}

/** By then a worker has most jobs, which need no mark. */
const MARK_AFTER_MS = 100

/**
 * Marks jobs as enqueued, so that the sweeper does not enqueue them again: in batches, and only those that still wait.
 * A job that was claimed and deferred in the meantime is left to the sweeper.
 */
function createEnqueuedMarker(sql: Sql): (jobId: string) => Promise<void> {
  let pending: { readonly jobIds: string[]; readonly marked: Promise<void> } | null = null
  const markLater = async (jobIds: string[]) => {
    await delay(MARK_AFTER_MS)
    pending = null
    await markEnqueued(sql, jobIds)
  }
  return (jobId) => {
    const jobIds = pending?.jobIds ?? []
    jobIds.push(jobId)
    pending ??= { jobIds, marked: markLater(jobIds) }
    return pending.marked
  }
}

async function markEnqueued(sql: Sql, jobIds: readonly string[]): Promise<void> {
  await sql.query({
    name: 'mark_enqueued',
    text: `UPDATE jobs SET enqueued_at = now()
     WHERE id = ANY($1) AND state IN ('accepted', 'generated') AND lease_expires_at IS NULL AND run_after <= now()`,
    values: [jobIds],
  })
}

/** A call that pays with a permit. */
export interface PermitCall {
  readonly payer: string
  readonly idempotencyKey: string
}

/** Turns whose calls did not return are deleted by later ones, some at a time. */
const FORGOTTEN_AFTER_SECONDS = 60
const FORGOTTEN_AT_ONCE = 10

/** Gives a call the payer's turn, unless another call has it or a job of the payer is open. Returns whether it has it. */
async function takePermitTurn(sql: Sql, { payer, idempotencyKey }: PermitCall, seconds: number): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'take_permit_turn',
    text: `WITH forgotten AS (
       DELETE FROM permit_turns WHERE payer IN (
         SELECT payer FROM permit_turns WHERE ends_at <= now() - make_interval(secs => $4) AND payer <> $1
         ORDER BY ends_at LIMIT $5 FOR UPDATE SKIP LOCKED))
     INSERT INTO permit_turns AS turn (payer, idempotency_key, ends_at)
     SELECT $1, $2, now() + make_interval(secs => $3)
     WHERE NOT EXISTS (SELECT FROM jobs WHERE payer = $1 AND finished_at IS NULL AND state <> 'review')
     ON CONFLICT (payer) DO UPDATE SET idempotency_key = excluded.idempotency_key, ends_at = excluded.ends_at
     WHERE turn.ends_at <= now() OR turn.idempotency_key = excluded.idempotency_key
     RETURNING payer`,
    values: [payer, idempotencyKey, seconds, FORGOTTEN_AFTER_SECONDS, FORGOTTEN_AT_ONCE],
  })
  return rowCount === 1
}

/** Returns the key of the call that has the payer's turn, or `null`. */
async function findPermitTurn(sql: Sql, payer: string): Promise<string | null> {
  const { rows } = await sql.query<{ idempotency_key: string }>({
    name: 'find_permit_turn',
    text: 'SELECT idempotency_key FROM permit_turns WHERE payer = $1 AND ends_at > now()',
    values: [payer],
  })
  return rows[0]?.idempotency_key ?? null
}

/** Ends the turn of a call, if it has it. */
async function endPermitTurn(sql: Sql, { payer, idempotencyKey }: PermitCall): Promise<void> {
  await sql.query({
    name: 'end_permit_turn',
    text: 'DELETE FROM permit_turns WHERE payer = $1 AND idempotency_key = $2',
    values: [payer, idempotencyKey],
  })
}

/**
 * Returns how long the oldest accepted job of each operation has waited for its provider call, in milliseconds, in the
 * queue or in a worker: a job that is leased may still wait there for memory or for its deployments. Deferred ones do not
 * count, even when they are due: they wait for each other.
 */
async function readQueueAges(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ operation: string; age_ms: number }>(
    `SELECT operation, (extract(epoch FROM now() - min(run_after)) * 1000)::float8 AS age_ms
     FROM jobs
     WHERE state = 'accepted' AND run_after <= now() AND deferred_since IS NULL
     GROUP BY operation`,
  )
  return new Map(rows.map(({ operation, age_ms }) => [operation, age_ms]))
}

/**
 * Creates a `bindKey` that batches. Nearly every unpaid request carries a new key: those that arrive while a statement
 * runs are bound together by the next one, with one commit; a single one does not wait, and nobody waits long for a
 * statement that hangs. A key that is already taken is bound separately afterwards, so that no caller waits for the lock on
 * another caller's key.
 */
function createKeyBinder(pool: Pool): (request: KeyBindingRequest) => Promise<KeyBinding> {
  const bindFreeKey = batch((requests: readonly KeyBindingRequest[]) => bindFreeKeys(pool, requests), MAXIMUM_BATCH, {
    longestWaitMs: LONGEST_WAIT_MS,
  })
  return async (request) => {
    const expiresAt = await bindFreeKey(request)
    return expiresAt ? { outcome: 'bound', quote: request.quote, expiresAt } : await bindKey(pool, request)
  }
}

/**
 * Binds free keys, each to the first request with it. Returns when each challenge expires, `null` for a key that is not
 * free.
 */
async function bindFreeKeys(sql: Sql, requests: readonly KeyBindingRequest[]): Promise<(Date | null)[]> {
  const firstOf = new Map(requests.toReversed().map((request) => [request.idempotencyKey, request]))
  // Always in the same order, so that two processes cannot deadlock. One JSON text costs less than seven arrays.
  const { rows } = await sql.query<FreeKeyRow>({
    name: 'bind_free_keys',
    text: `INSERT INTO idempotency_keys
       (idempotency_key, request_digest, quoted_maximum, catalog_version, terms, described_audio, expires_at)
     SELECT idempotency_key, request_digest, quoted_maximum, catalog_version, terms, described_audio,
       now() + make_interval(secs => lifetime_seconds)
     FROM json_to_recordset($1) AS asked (idempotency_key text, request_digest text, quoted_maximum numeric,
       catalog_version text, terms jsonb, described_audio jsonb, lifetime_seconds double precision)
     ORDER BY idempotency_key COLLATE "C"
     ON CONFLICT (idempotency_key) DO NOTHING
     RETURNING idempotency_key, expires_at`,
    values: [JSON.stringify([...firstOf.values()].map(asRow))],
  })
  const expiryOf = new Map(rows.map((row) => [row.idempotency_key, row.expires_at]))
  return requests.map((request) =>
    firstOf.get(request.idempotencyKey) === request ? (expiryOf.get(request.idempotencyKey) ?? null) : null,
  )
}

function asRow({ idempotencyKey, requestDigest, quote, lifetimeSeconds, describedAudio }: KeyBindingRequest) {
  return {
    idempotency_key: idempotencyKey,
    request_digest: requestDigest,
    quoted_maximum: quote.quotedMaximum.toString(),
    catalog_version: quote.catalogVersion,
    terms: quote.terms,
    described_audio: descriptionColumn(describedAudio),
    lifetime_seconds: lifetimeSeconds,
  }
}
