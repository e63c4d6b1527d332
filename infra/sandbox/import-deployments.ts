import { importChangedFile } from '#shared/adapters/postgres/configuration/import-files.ts'
import { withConnection } from '#shared/adapters/postgres/with-connection.ts'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'

/**
 * Publishes the generated deployments, whose upstream has another port at each start of the sandbox. What an operator
 * published is in force until then. A schema of an earlier version, which has no publications, is left alone.
 */
export async function importDeployments(databaseUrl: string, deployments: DeploymentsFileInput): Promise<void> {
  await withConnection({ connectionString: databaseUrl, applicationName: 'farebox sandbox' }, async (pool) => {
    const { rows } = await pool.query<{ name: string | null }>(`SELECT to_regclass('publications')::text AS name`)
    if (rows[0]?.name == null) return
    await importChangedFile(
      pool,
      { operator: 'sandbox', source: 'command' },
      { kind: 'deployments', content: deployments, reason: 'start of the sandbox' },
    )
  })
}
