import type pg from 'pg'

/** Brings the stored totals up to date with rows that are older than what they cover, as the migration does. */
export async function refreshTotals(client: pg.Client): Promise<void> {
  await client.query(
    `UPDATE ledger_totals SET charged_jobs = charged.count, charged_total = charged.total,
       ambiguous_attempts = ambiguous.count, ambiguous_total = ambiguous.total
     FROM (SELECT count(*), coalesce(sum(charge_amount), 0) AS total FROM jobs, ledger_totals
         WHERE state = 'completed' AND finished_at < through) AS charged,
       (SELECT count(*), coalesce(sum(authorized_maximum), 0) AS total
         FROM ledger_totals, upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
         WHERE state = 'failed_ambiguous' AND finished_at < through) AS ambiguous`,
  )
  await client.query(
    `INSERT INTO uncharged_work_totals (kind, count, total)
     SELECT kind, count(*), sum(amount) FROM uncharged_work, ledger_totals WHERE created_at < through GROUP BY kind
     ON CONFLICT (kind) DO UPDATE SET count = excluded.count, total = excluded.total`,
  )
}
