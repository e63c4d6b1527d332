import pg from 'pg'

/** The texts of statements are constants of this service: there are some dozens of them. */
const names = new Map<string, string>()

/**
 * A client that has each statement with parameters parsed and planned once for each connection instead of each time: that was
 * a quarter of PostgreSQL's processor time for a paid call. What a prepared statement returns must not change while processes run that
 * an older migration was enough for, so no statement returns `*`.
 */
export class PreparingClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const send = this.query.bind(this) as (...call: unknown[]) => unknown
    const query = (...[statement, values, ...others]: unknown[]) =>
      typeof statement === 'string' && Array.isArray(values) && values.length > 0
        ? send({ name: nameOf(statement), text: statement, values }, ...others)
        : send(statement, values, ...others)
    Object.assign(this, { query })
  }
}

function nameOf(statement: string): string {
  const name = names.get(statement) ?? `farebox_${names.size + 1}`
  names.set(statement, name)
  return name
}
