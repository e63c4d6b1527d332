import { QUEUE_SCHEMA } from '#shared/adapters/bullmq/postgres-engine.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { findServiceRoles, grantServiceRights } from '#shared/ledger/role-rights.ts'
import { prepareServiceRole } from '#shared/ledger/service-role.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'

const SERVICE_ROLE = 'farebox_service'

/**
 * Returns how the services of a sandbox connect to the database of its owner. The password follows from the owner's, so
 * that all sandboxes of one server have the same.
 */
export function serviceUrlOf(ownerUrl: string): string {
  const url = new URL(ownerUrl)
  url.password = sha256Hex(`the services' password of ${url.password}`)
  url.username = SERVICE_ROLE
  return url.href
}

/** Prepares the services' role for a database that somebody else migrated, unless they gave it its rights. */
export async function grantToService(ownerUrl: string): Promise<void> {
  await withConnection({ connectionString: ownerUrl, applicationName: 'farebox sandbox' }, async (pool) => {
    const role = await prepareServiceRole(pool, serviceUrlOf(ownerUrl))
    if (!(await findServiceRoles(pool)).includes(role)) await grantServiceRights(pool, role, QUEUE_SCHEMA)
  })
}
