import type { Sql } from '../pool.ts'

/** Counts the accepted calls that no provider has been called for yet, by public model. */
export async function countWaitingCalls(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ model: string; count: number }>({
    name: 'count_waiting_calls',
    text: `SELECT public_model AS model, count(*)::int AS count FROM jobs WHERE state = 'accepted' GROUP BY public_model`,
    values: [],
  })
  return new Map(rows.map(({ model, count }) => [model, count]))
}
