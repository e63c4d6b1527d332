import { randomBytes } from 'node:crypto'
import pg from 'pg'

/** An arbitrary constant: copies of a template must be made one after the other. */
const COPY_LOCK = 4711

export interface TestDatabase {
  readonly url: string
  drop(): Promise<void>
}

/** Creates a database with the ledger's and the queue's schema, as a copy of the run's template. Takes about 30 ms. */
export async function createTestDatabase(): Promise<TestDatabase> {
  // Imported here because it imports vitest, which is only possible inside a test run; benchmarks use the rest of this
  // folder.
  const { askSharedServices } = await import('../processes/ask-shared-services.ts')
  return copyDatabase(await askSharedServices<string>('/postgres'))
}

/** Copies the database that `templateUrl` names, on the same server. */
export async function copyDatabase(templateUrl: string): Promise<TestDatabase> {
  const template = new URL(templateUrl)
  const name = `test_${randomBytes(6).toString('hex')}`
  await asAdministrator(template, async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [COPY_LOCK])
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template.pathname.slice(1)}`)
    await client.query('SELECT pg_advisory_unlock($1)', [COPY_LOCK])
  })
  const url = new URL(template)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () =>
      asAdministrator(template, async (client) => {
        await client.query(`DROP DATABASE ${name} WITH (FORCE)`)
      }),
  }
}

async function asAdministrator(template: URL, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const url = new URL(template)
  url.pathname = '/postgres'
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
