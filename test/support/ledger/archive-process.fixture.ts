import { env } from 'node:process'
import { openArchive } from '#shared/adapters/open-stores.ts'
import { createArchiveStore } from '#shared/ledger/archive/archive-store.ts'
import { createPool } from '#shared/ledger/pool.ts'
import { archiveMonths } from '../../../infra/commands/archive/archive-months.ts'
import { createReachPoint } from '../../resilience/processes/reach-point.ts'
import { addCommitPoints, callWithPoints, portWithPoints } from '../../resilience/processes/with-points.ts'

/** A run of the archive with points before and after each of its steps, at which it can be killed. */
const [pointsDirectory = '', before = ''] = process.argv.slice(2)
const reach = createReachPoint(pointsDirectory)
addCommitPoints(reach)
const settings = {
  OBJECT_STORE_DIRECTORY: env['OBJECT_STORE_DIRECTORY'],
  S3_REGION: 'us-east-1',
  S3_FORCE_PATH_STYLE: false,
}
const { objects } = await openArchive(settings)
const pool = createPool({
  connectionString: env['DATABASE_URL'] ?? '',
  maximumConnections: 2,
  applicationName: 'farebox archive test',
  onError: () => undefined,
})
const store = createArchiveStore(pool)
{
  await using run = await store.begin()
  if (!run) throw new Error('another run is under way')
  const steps = {
    ...run,
    readDocuments: callWithPoints(reach, 'readDocuments', (...input: Parameters<typeof run.readDocuments>) =>
      run.readDocuments(...input),
    ),
    erase: callWithPoints(reach, 'erase', (...input: Parameters<typeof run.erase>) => run.erase(...input)),
    finishMonth: callWithPoints(reach, 'finishMonth', (...input: Parameters<typeof run.finishMonth>) =>
      run.finishMonth(...input),
    ),
  }
  await archiveMonths(
    store,
    { run: steps, objects: portWithPoints(reach, 'objects', objects), onProgress: () => undefined },
    before,
  )
}
await pool.end()
