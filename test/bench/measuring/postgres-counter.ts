import { type PostgresProxy, startPostgresProxy, textAt } from './postgres-proxy.ts'

/** The number of times each statement was sent, by its text with normalized white space. */
export type StatementCounts = ReadonlyMap<string, number>

export interface PostgresCounter extends PostgresProxy {
  /** Returns the statements sent since the previous call. */
  take(): StatementCounts
  /** Returns the names of the prepared statements that were ever sent, by their text as it was sent. */
  preparedNames(): ReadonlyMap<string, string>
}

/** Types of client messages: a simple query; and in the extended protocol a statement's text and each use of it. */
const [QUERY, PARSE, BIND] = ['Q', 'P', 'B'].map((letter) => letter.charCodeAt(0))

/**
 * Starts a proxy that counts the statements that clients send to PostgreSQL, `BEGIN` and `COMMIT` included. The proxy
 * costs time, so counted calls are not timed.
 */
export async function startPostgresCounter(databaseUrl: string): Promise<PostgresCounter> {
  let counts = new Map<string, number>()
  const count = (statement: string) => {
    const text = statement.replaceAll(/\s+/g, ' ').trim()
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  const names = new Map<string, string>()
  const proxy = await startPostgresProxy(databaseUrl, () => {
    /** Statements by name; the unnamed statement has the empty name. */
    const prepared = new Map<string, string>()
    return {
      fromClient: (type, content) => {
        if (type === QUERY) count(textAt(content, 0).text)
        if (type !== PARSE && type !== BIND) return
        // A statement's message starts with its name, a use with the portal's.
        const first = textAt(content, 0)
        const second = textAt(content, first.end)
        if (type === BIND) {
          count(prepared.get(second.text) ?? 'unknown')
          return
        }
        prepared.set(first.text, second.text)
        if (first.text !== '') names.set(second.text, first.text)
      },
    }
  })
  return {
    ...proxy,
    take: () => {
      const taken = counts
      counts = new Map()
      return taken
    },
    preparedNames: () => names,
  }
}
