import type { PastCall } from '#shared/operators/price-again.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { discardDraft, findDraft, saveDraft } from './drafts.ts'
import { importFile } from './import-files.ts'
import { readWorkerKeys } from './process-report-store.ts'
import { findNewest, findPublication, listPublications, publish } from './publications.ts'

export type ConfigurationStore = ReturnType<typeof createConfigurationStore>

/** Creates the store of publications and drafts, for the console and the commands. */
export function createConfigurationStore(pool: Pool) {
  return bindTo(pool, {
    findNewest,
    findPublication,
    listPublications,
    findDraft,
    saveDraft,
    discardDraft,
    publish,
    importFile,
    readLastCalls,
    readWorkerKeys,
    countWaitingCalls,
  })
}

/** Counts the accepted calls that no provider has been called for yet, by public model. */
async function countWaitingCalls(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ model: string; count: number }>({
    name: 'count_waiting_calls',
    text: `SELECT public_model AS model, count(*)::int AS count FROM jobs WHERE state = 'accepted' GROUP BY public_model`,
    values: [],
  })
  return new Map(rows.map(({ model, count }) => [model, count]))
}

/** Reads the last calls, newest first, without those among them whose terms are archived. */
async function readLastCalls(sql: Sql, limit: number): Promise<readonly PastCall[]> {
  return await readRows<PastCall>(sql, {
    name: 'read_last_calls',
    text: `SELECT id AS "jobId", accepted_at AS "acceptedAt", operation, public_model AS model, terms, usage,
             quoted_maximum AS "quotedMaximum", charge_amount AS charge
           FROM (
             SELECT id, accepted_at, operation, public_model, terms, usage, quoted_maximum, charge_amount
             FROM jobs ORDER BY accepted_at DESC, id DESC LIMIT $1) AS last WHERE terms <> '{}'
           ORDER BY accepted_at DESC, id DESC`,
    values: [limit],
  })
}
