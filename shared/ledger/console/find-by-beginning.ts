import { type Finding, MOST_FINDINGS as MOST, SHOWN_KEY_CHARACTERS } from '#shared/operators/findings.ts'
import type { Sql } from '../pool.ts'

/** Fewer characters begin too much. */
const FEWEST_CHARACTERS = 4
const HEX = /^0x[0-9a-f]*$/
const UUID_DIGITS = 32
/** Sorts behind everything that callers usually write, in any collation: as long as an id may be. */
const LAST = 'z'.repeat(255)

/** Finds everything whose id begins with a text, which may be cut off with an ellipsis as in the console's tables. */
export async function findByBeginning(
  sql: Sql,
  text: string,
  findTransaction: (hash: string) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const [beginning = ''] = text.split('…')
  if (beginning.length < FEWEST_CHARACTERS) return []
  const lower = beginning.toLowerCase()
  const uuids = uuidsFrom(lower)
  const found = [
    ...(uuids ? await findUuids(sql, uuids) : []),
    ...(HEX.test(lower) ? await findPayers(sql, lower) : []),
  ]
  for (const hash of HEX.test(lower) ? await findHashes(sql, lower) : []) found.push(...(await findTransaction(hash)))
  return [...found, ...(await findNames(sql, beginning))]
}

/** Returns the first and the last UUID that begin with a text; `null` when none does. */
function uuidsFrom(text: string): readonly [string, string] | null {
  const digits = text.replaceAll('-', '')
  if (!/^[0-9a-f]+$/.test(digits) || digits.length > UUID_DIGITS) return null
  const [first, last] = ['0', 'f'].map((digit) =>
    digits.padEnd(UUID_DIGITS, digit).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
  )
  return first && last && (first.startsWith(text) || text === digits) ? [first, last] : null
}

const BETWEEN = `id BETWEEN $1::uuid AND $2::uuid ORDER BY id LIMIT ${MOST}`

async function findUuids(sql: Sql, range: readonly [string, string]): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_uuids',
    text: `(SELECT 'job' AS kind, 'job' AS matched, id FROM jobs WHERE ${BETWEEN})
     UNION ALL (SELECT 'job', 'receipt', job_id FROM receipts WHERE ${BETWEEN})
     UNION ALL (SELECT 'job', 'settlement', job_id FROM settlements WHERE ${BETWEEN})`,
    values: [...range],
  })
  return rows
}

/** The range of hexadecimal text in lower case that begins with `$1`. */
const hexWithin = (column: string) => `${column} >= $1 AND ${column} < $1 || 'g'`

/** Reads from one payer to the next: of those with millions of calls as well one row each. */
async function findPayers(sql: Sql, beginning: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_payers',
    text: `WITH RECURSIVE payers AS (
       (SELECT payer FROM jobs WHERE ${hexWithin('payer')} ORDER BY payer LIMIT 1)
       UNION ALL SELECT (SELECT payer FROM jobs WHERE payer > payers.payer AND payer < $1 || 'g' ORDER BY payer LIMIT 1)
       FROM payers WHERE payers.payer IS NOT NULL)
     SELECT 'payer' AS kind, 'address' AS matched, payer AS id FROM (
       (SELECT payer FROM payers WHERE payer IS NOT NULL LIMIT ${MOST})
       UNION (SELECT payer FROM unknown_settlements WHERE ${hexWithin('payer')} ORDER BY payer LIMIT ${MOST})) AS known
     LIMIT ${MOST}`,
    values: [beginning],
  })
  return rows
}

const hashesOf = (table: string, column: string) =>
  `(SELECT ${column} AS hash FROM ${table} WHERE ${hexWithin(column)} ORDER BY ${column} LIMIT ${MOST})`

async function findHashes(sql: Sql, beginning: string): Promise<readonly string[]> {
  const { rows } = await sql.query<{ hash: string }>({
    name: 'find_console_hashes',
    text: `${hashesOf('settlement_transactions', 'hash')} UNION ${hashesOf('settlements', 'transaction_hash')}
     UNION ${hashesOf('unknown_settlements', 'transaction_hash')} UNION ${hashesOf('resolutions', 'refund_transaction')}
     LIMIT ${MOST}`,
    values: [beginning],
  })
  return rows.map(({ hash }) => hash)
}

const isShown = (column: string) => `char_length($1) <= least(${SHOWN_KEY_CHARACTERS}, char_length(${column}) / 2)`
const named = (matched: string, column: string, condition = 'true') =>
  `(SELECT 'job' AS kind, '${matched}' AS matched, id FROM jobs
    WHERE ${column} >= $1 AND ${column} <= $1 || $2 AND starts_with(${column}, $1) AND ${condition}
    ORDER BY ${column} LIMIT ${MOST})`

/**
 * Finds what callers name themselves. A key is a capability: no more of it is searched by than the console shows, or the
 * search would say character by character what comes next.
 */
async function findNames(sql: Sql, beginning: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_names',
    text: `${named('request', 'request_id')}
     UNION ALL ${named('key', 'idempotency_key', isShown('idempotency_key'))}
     UNION ALL ${named('released_key', 'released_idempotency_key', isShown('released_idempotency_key'))}`,
    values: [beginning, LAST],
  })
  return rows
}
