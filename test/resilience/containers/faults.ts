import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { CallRecord } from '../checker/ledgers.ts'
import { COUNTS, type Composition, SERVICES, untilServing } from './composition.ts'
import { SECOND_IMAGE } from './images.ts'
import { type Outcome, underLoad } from './load.ts'
import { BUCKET } from './settings.ts'

type Service = keyof typeof SERVICES
const AWAY_MS = 15_000

/** Replaces a service's containers as infra/README.md says: new ones in addition, wait until they are healthy, end the old ones. */
async function replaceService({ engine }: Composition, service: Service): Promise<number> {
  const startedAt = performance.now()
  const old = await engine.containers(service)
  const scale = service === 'api' || service === 'worker'
  if (scale) {
    const count = String(old.length * 2)
    await engine.compose(
      'up',
      '--detach',
      '--no-build',
      '--no-deps',
      '--no-recreate',
      '--scale',
      `${service}=${count}`,
      service,
    )
    await engine.untilHealthy(service, Number(count))
    await Promise.all(old.map(({ id }) => engine.podman('stop', id)))
    for (const { id } of old) await engine.podman('rm', id)
  } else await engine.compose('up', '--detach', '--no-build', '--no-deps', service)
  await engine.untilHealthy(service, SERVICES[service])
  const images = (await engine.containers(service)).map(({ image }) => image)
  if (images.some((image) => image !== SECOND_IMAGE)) throw new Error(`${service} still runs ${images.join(' and ')}`)
  return (performance.now() - startedAt) / 1000
}

/** Kills the first container of a service as a crash does, so that the engine restarts it. */
export async function killContainer(composition: Composition, service: Service): Promise<Outcome> {
  const { engine } = composition
  return await underLoad(composition, `SIGKILL of ${service}`, async () => {
    const [one] = await engine.containers(service)
    if (one === undefined || one.pid === 0) throw new Error(`${service} does not run`)
    const killedAt = performance.now()
    process.kill(one.pid, 'SIGKILL')
    await untilRestarted(composition, service, one)
    if (service !== 'proxy') await engine.untilHealthy(service, SERVICES[service])
    return (performance.now() - killedAt) / 1000
  })
}

async function untilRestarted(
  { engine }: Composition,
  service: Service,
  old: { id: string; pid: number },
): Promise<void> {
  for (const giveUpAt = Date.now() + AWAY_MS; ; await delay(200)) {
    const now = (await engine.containers(service)).find(({ id }) => id === old.id)
    if (now?.isRunning && now.pid !== old.pid) return
    // A container whose engine does not restart it is started by its manager.
    if (Date.now() > giveUpAt) {
      await engine.podman('start', old.id)
      return
    }
  }
}

export async function restartStore(composition: Composition, service: 'postgres' | 'redis'): Promise<Outcome> {
  const { engine } = composition
  return await underLoad(composition, `restart of ${service}`, async () => {
    const startedAt = performance.now()
    await engine.compose('restart', service)
    await untilServing(engine)
    return (performance.now() - startedAt) / 1000
  })
}

/** Stops all containers and starts them again, as when the machine restarts. */
export async function restartAll(composition: Composition): Promise<Outcome> {
  const { engine } = composition
  return await underLoad(composition, 'down and up of all', async () => {
    const startedAt = performance.now()
    await engine.compose('down', '--timeout', '60')
    await engine.compose('up', '--detach', '--no-build', ...COUNTS, ...Object.keys(SERVICES))
    await untilServing(engine)
    return (performance.now() - startedAt) / 1000
  })
}

/** Takes the object store away for a while. */
export async function takeObjectsAway(composition: Composition): Promise<Outcome> {
  const { engine } = composition
  return await underLoad(composition, 'object store away', async () => {
    await engine.compose('stop', '--timeout', '20', 'objects')
    await delay(AWAY_MS)
    const startedAt = performance.now()
    await engine.compose('up', '--detach', '--no-build', '--no-deps', 'objects')
    await engine.untilHealthy('objects')
    return (performance.now() - startedAt) / 1000
  })
}

const ORDER = ['worker', 'api', 'settler', 'console'] as const

/** Replaces the services by a second image, in the order of infra/README.md. */
export async function replaceAll(composition: Composition): Promise<Outcome> {
  const { directory, engine } = composition
  await appendFile(join(directory, '.env'), `FAREBOX_IMAGE=${SECOND_IMAGE}\n`)
  return await underLoad(composition, 'rolling update', async () => {
    let seconds = 0
    await engine.compose('run', '--rm', '-T', 'migrate')
    for (const service of ORDER) seconds += await replaceService(composition, service)
    return seconds
  })
}

function countText(calls: readonly CallRecord[]): number {
  return calls.filter(({ path, outcome }) => outcome === 'released' && /chat|messages/.test(path)).length
}

/** Makes the bucket one that is not there, restarts the workers, and brings it back; text calls must go on meanwhile. */
export async function hideBucket(composition: Composition, report: (line: string) => void): Promise<Outcome> {
  const { engine, caller } = composition
  const rename = async (from: string, to: string) => {
    const [objects] = await engine.containers('objects')
    const names = ['--bucket', from, '--bucket-new-name', to]
    await engine.podman('exec', objects?.id ?? '', 'radosgw-admin', 'bucket', 'link', '--uid', 'owner', ...names)
  }
  return await underLoad(composition, 'bucket missing', async () => {
    await rename(BUCKET, `${BUCKET}-hidden`)
    const before = countText(caller.records)
    for (const { pid } of await engine.containers('worker')) process.kill(pid, 'SIGKILL')
    await delay(4 * AWAY_MS)
    report(`  text calls released without a bucket: ${countText(caller.records) - before}`)
    await rename(`${BUCKET}-hidden`, BUCKET)
    const startedAt = performance.now()
    await untilServing(engine)
    return (performance.now() - startedAt) / 1000
  })
}
