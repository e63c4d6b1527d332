import pg from 'pg'
import { collect } from '../checker/collect.ts'
import type { Ledgers } from '../checker/ledgers.ts'
import { objectsInBucket } from '../checker/read-objects.ts'
import { canaryOf } from '../stack/stack.ts'
import { untilNoneLeft } from '../stack/until-reached.ts'
import type { Composition } from './composition.ts'
import { isSound, madeUpCaller, type Reconciliation, reconcile } from './reconciliation.ts'
import { BUCKET } from './settings.ts'

/** A job whose worker was killed waits for its lease, and may do so several times. */
const IDLE_PATIENCE_MS = 300_000

/** Waits until nothing is under way, reconciles all ledgers, and runs `npm run ledger` in a container. */
export async function checkLedgers(
  composition: Composition,
): Promise<{ ledgers: Ledgers; reconciliation: Reconciliation; printed: string }> {
  const { engine, outer, caller, settings } = composition
  const databaseUrl = await composition.databaseUrl()
  await untilIdle(databaseUrl)
  const [objects = ''] = (await engine.containers('objects'))[0]?.addresses ?? []
  const ledgers = await collect({
    rpcUrl: outer.localRpcUrl,
    payTo: settings.payTo,
    settlementContract: settings.contract,
    settlementAddresses: [settings.settlementAddress],
    databaseUrl,
    reorganizedAt: [],
    upstreamCallLog: outer.upstreamCallLog,
    readObjects: objectsInBucket({
      S3_BUCKET: BUCKET,
      S3_ENDPOINT: `http://${objects}:8333`,
      S3_REGION: 'us-east-1',
      S3_FORCE_PATH_STYLE: true,
      S3_ACCESS_KEY_ID: settings.env['S3_ACCESS_KEY_ID'] ?? '',
      S3_SECRET_ACCESS_KEY: settings.env['S3_SECRET_ACCESS_KEY'] ?? '',
    }),
    canaries: caller.audios.map(canaryOf),
    calls: caller.records,
    callsToReplay: caller.records,
    replay: (record) => caller.replay(record),
  })
  const [api] = await engine.containers('api')
  // Throws unless it ends with 0: no difference.
  const printed = await engine.podman('exec', api?.id ?? '', 'node', 'infra/commands/ledger/main.ts')
  return { ledgers, reconciliation: reconcile(ledgers), printed }
}

/** Whether the reconciliation can fail: it must report a caller whom nobody served. */
export function noticesMadeUpCaller({ clients, ...others }: Ledgers): boolean {
  return !isSound(reconcile({ ...others, clients: { ...clients, calls: [...clients.calls, madeUpCaller()] } }))
}

async function untilIdle(databaseUrl: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
  try {
    const left = await untilNoneLeft(async () => {
      const { rows } = await pool.query<{ id: string }>(
        `SELECT id FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
         UNION ALL SELECT id FROM staged_uploads WHERE erased_at IS NOT NULL AND object_deleted_at IS NULL ORDER BY id`,
      )
      return rows
    }, IDLE_PATIENCE_MS)
    if (left.length > 0) throw new Error(`${left.length} calls never ended, such as ${left[0]?.id}`)
  } finally {
    await pool.end()
  }
}
