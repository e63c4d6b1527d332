import pg from 'pg'
import { z } from 'zod'

export interface StatementMean {
  readonly text: string
  readonly calls: number
  readonly meanMs: number
}

const rowsSchema = z.array(z.object({ text: z.string(), calls: z.number(), meanMs: z.number() }))

/**
 * Reads how long each of the ledger's statements took on average since the server started, by its text. The extension's
 * view is in a database of its own, so that the ledger's schema stays as it is.
 */
export async function readStatements(connectionString: string): Promise<ReadonlyMap<string, StatementMean>> {
  const statistics = new URL(connectionString)
  statistics.pathname = '/postgres'
  const client = new pg.Client({ connectionString: statistics.href })
  await client.connect()
  try {
    await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements')
    const { rows } = await client.query(
      `SELECT min(query) AS text, sum(calls)::float8 AS calls, sum(total_exec_time) / sum(calls) AS "meanMs"
       FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1) GROUP BY queryid`,
      [new URL(connectionString).pathname.slice(1)],
    )
    return new Map(rowsSchema.parse(rows).map((row) => [row.text, row]))
  } finally {
    await client.end()
  }
}

const [SHOWN, SHOWN_CHARACTERS] = [20, 110]

/** Returns the statements that take longer on the full ledger, by the time that they take more in total. */
export function slowerStatements(
  empty: ReadonlyMap<string, StatementMean>,
  full: ReadonlyMap<string, StatementMean>,
): readonly {
  readonly statement: string
  readonly calls: number
  readonly 'empty, ms': number
  readonly 'full, ms': number
}[] {
  return [...full.values()]
    .map((one) => ({ ...one, emptyMs: empty.get(one.text)?.meanMs ?? 0 }))
    .toSorted((one, other) => (other.meanMs - other.emptyMs) * other.calls - (one.meanMs - one.emptyMs) * one.calls)
    .slice(0, SHOWN)
    .map(({ text, calls, meanMs, emptyMs }) => ({
      statement: text.replaceAll(/\s+/g, ' ').slice(0, SHOWN_CHARACTERS),
      calls,
      'empty, ms': emptyMs,
      'full, ms': meanMs,
    }))
}
