import type { Sql } from '../pool.ts'
import { boundsOf, monthOf } from './month.ts'

/** Returns the months before `before` that have completed calls, without those that are archived completely. */
export async function findMonths(sql: Sql, before: string): Promise<readonly string[]> {
  const { rows: first } = await sql.query<{ finished_at: Date | null }>(
    "SELECT min(finished_at) AS finished_at FROM jobs WHERE state = 'completed'",
  )
  const { rows: done } = await sql.query<{ month: string }>(
    "SELECT to_char(month, 'YYYY-MM') AS month FROM archive_months WHERE remaining = 0",
  )
  const complete = new Set(done.map(({ month }) => month))
  const months: string[] = []
  const oldest = first[0]?.finished_at
  if (!oldest) return months
  for (let month = monthOf(oldest); month < before; month = monthOf(boundsOf(month)[1]))
    if (!complete.has(month)) months.push(month)
  return months
}
