import { readdir, readFile } from 'node:fs/promises'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

/** A line of a migration's file that says how it is applied, such as `-- farebox: no-transaction`. */
const DIRECTIVE = /^-- farebox: (\S+)(?: (\S+))?\n/gm

/** One file of the folder `migrations`. */
export interface Migration {
  readonly name: string
  readonly sql: string
  /** SHA-256 of the file without its directives, so that these may be added later. */
  readonly digest: string
  /**
   * The newest migration that a program must know to work with this one applied, too; `null` when a program must know
   * this one (`-- farebox: compatible-from 0001-schema.sql`).
   */
  readonly compatibleFrom: string | null
  /** Whether its statements run one by one without a transaction (`-- farebox: no-transaction`). */
  readonly runsWithoutTransaction: boolean
}

/** Reads the migrations of a folder, by default of this version, in the order in which they are applied. */
export async function readMigrations(folder: URL = MIGRATIONS): Promise<readonly Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return await Promise.all(
    names.map(async (name) => parseMigration(name, await readFile(new URL(name, folder), 'utf8'))),
  )
}

function parseMigration(name: string, text: string): Migration {
  let compatibleFrom: string | null = null
  let runsWithoutTransaction = false
  for (const [line, directive, value] of text.matchAll(DIRECTIVE)) {
    if (directive === 'compatible-from' && value !== undefined) compatibleFrom = value
    else if (directive === 'no-transaction' && value === undefined) runsWithoutTransaction = true
    else throw new Error(`migration ${name} has an unknown directive: ${line.trim()}`)
  }
  const sql = text.replaceAll(DIRECTIVE, '')
  return { name, sql, digest: sha256Hex(sql), compatibleFrom, runsWithoutTransaction }
}

/**
 * Returns the statements of a file that runs without a transaction: each ends with a semicolon at the end of a line.
 * PostgreSQL would run statements that are sent together in one transaction.
 */
export function statementsOf({ sql }: Pick<Migration, 'sql'>): readonly string[] {
  return sql.split(/;[ \t]*(?:\n|$)/).filter((statement) => statement.replaceAll(/^--.*$/gm, '').trim() !== '')
}
