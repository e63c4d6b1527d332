import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { PATIENCE_MS } from '../patience.ts'
import { havePrograms } from './optional-program.ts'
import { runProgram } from './run-program.ts'

/** OpenStack Swift, whose `s3api` speaks S3 without lifecycle rules, public access blocks or policies. */
export interface TestSwift {
  readonly url: string
  settings(changes?: Partial<S3Settings>): S3Settings
  stop(): Promise<void>
}

const SERVERS = ['account', 'container', 'object'] as const
const RETRY_MS = 100

/** Whether Swift is installed. Warns when it is not, and throws with `CI=true`. */
export const haveSwift = () =>
  havePrograms('swift-ring-builder', 'swift-proxy-server', ...SERVERS.map((name) => `swift-${name}-server` as const))

/** Starts Swift with one replica on free loopback ports, everything in one temporary folder. */
export async function startTestSwift(): Promise<TestSwift> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-swift-'))
  await mkdir(join(folder, 'devices/d1'), { recursive: true })
  const common = `[DEFAULT]\nbind_ip = 127.0.0.1\nswift_dir = ${folder}\nuser = ${userInfo().username}\nworkers = 0\nlog_address = ${folder}/no-log\n`
  await writeFile(
    join(folder, 'swift.conf'),
    '[swift-hash]\nswift_hash_path_suffix = a\nswift_hash_path_prefix = b\n[storage-policy:0]\nname = one\ndefault = yes\n',
  )
  const stops: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })]
  const stop = async () => {
    for (const each of stops.toReversed()) await each()
  }
  const start = (name: string) => {
    const run = spawnGuarded({
      command: `swift-${name}-server`,
      args: [join(folder, `${name}.conf`)],
      log: () => undefined,
    })
    stops.push(() => run.stop())
  }
  for (const name of SERVERS) {
    const port = await findFreePort()
    const ring = join(folder, `${name}.builder`)
    await runProgram('swift-ring-builder', [ring, 'create', '4', '1', '0'])
    await runProgram('swift-ring-builder', [ring, 'add', `r1z1-127.0.0.1:${port}/d1`, '1'])
    await runProgram('swift-ring-builder', [ring, 'rebalance'])
    await writeFile(
      join(folder, `${name}.conf`),
      `${common}bind_port = ${port}\ndevices = ${folder}/devices\nmount_check = false\n[pipeline:main]\npipeline = ${name}-server\n[app:${name}-server]\nuse = egg:swift#${name}\n`,
    )
    start(name)
  }
  const port = await findFreePort()
  await writeFile(
    join(folder, 'proxy.conf'),
    `${common}bind_port = ${port}
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
[filter:tempauth]
use = egg:swift#tempauth
user_farebox_owner = of-the-owner .admin
[filter:slo]
use = egg:swift#slo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
`,
  )
  start('proxy')
  const url = `http://127.0.0.1:${port}`
  await untilAnswers(url).catch(async (error: unknown) => {
    await stop()
    throw error
  })
  return {
    url,
    settings: (changes = {}) => ({
      S3_BUCKET: 'farebox-test',
      S3_ENDPOINT: url,
      S3_REGION: 'us-east-1',
      S3_FORCE_PATH_STYLE: true,
      S3_ACCESS_KEY_ID: 'farebox:owner',
      S3_SECRET_ACCESS_KEY: 'of-the-owner',
      ...changes,
    }),
    stop,
  }
}

async function untilAnswers(url: string): Promise<void> {
  for (const until = Date.now() + PATIENCE_MS; ; await delay(RETRY_MS)) {
    const answer = await fetch(url).catch(() => null)
    await answer?.body?.cancel()
    if (answer) return
    if (Date.now() > until) throw new Error(`Swift does not answer at ${url}`)
  }
}
