import { parseArgs } from 'node:util'
import { listenForStopSignals } from '../../../infra/sandbox/processes/supervise.ts'
import { haveS3, startTestS3 } from './s3-server.ts'

const HELP = `Usage: npx node test/support/processes/s3-gateway.ts [--day-seconds 10]

Runs Ceph's S3 gateway on this machine until Ctrl-C, with its objects in memory, and prints the
settings with which farebox uses it: for infra/commands/bucket-init/main.ts, npm run demo and npm start.
Needs Debian's packages ceph-mon, ceph-osd, ceph-base, ceph-common and radosgw.

  --day-seconds  how long a day of a lifecycle rule lasts (a day)
  --help         show this text`

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { 'day-seconds': { type: 'string' }, help: { type: 'boolean' } } })
  const daySeconds = values['day-seconds'] === undefined ? undefined : Number(values['day-seconds'])
  if (values.help || (daySeconds !== undefined && !(Number.isInteger(daySeconds) && daySeconds > 0))) {
    console.log(HELP)
    return values.help ? 0 : 2
  }
  if (!haveS3()) return 1
  const signals = listenForStopSignals()
  const startedAt = performance.now()
  const s3 = await startTestS3({ bucket: null, ...(daySeconds === undefined ? {} : { daySeconds }) })
  console.log(`# Ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s. Ctrl-C stops it.`)
  for (const [name, value] of Object.entries(s3.settings({ S3_BUCKET: 'farebox-sandbox' })))
    console.log(`export ${name}=${value}`)
  await signals.received
  await s3.stop()
  return 0
}

process.exitCode = await main()
