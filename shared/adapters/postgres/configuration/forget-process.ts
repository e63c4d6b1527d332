import type { Sql } from '../pool.ts'

/** Removes the report of a process that ends. */
export async function forgetProcess(sql: Sql, instance: string): Promise<void> {
  await sql.query({
    name: 'forget_process',
    text: 'DELETE FROM process_reports WHERE instance = $1',
    values: [instance],
  })
}
