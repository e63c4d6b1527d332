import { randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { PATIENCE_MS } from '../patience.ts'
import { runProgram } from './run-program.ts'

const POLL_MS = 50
const ATTEMPTS = 5

/** Ceph's gateway on a cluster of one monitor and one store in memory, all of it in one folder and on loopback. */
export interface CephCluster {
  readonly port: number
  /** Creates a user of S3 with these keys. */
  addUser(name: string, accessKeyId: string, secretAccessKey: string): Promise<void>
  stop(): Promise<void>
}

interface Ports {
  readonly monitor: number
  readonly gateway: number
}

/**
 * Starts the cluster in `directory`, which the caller deletes. Every process ends with this one. With `daySeconds` a
 * day of a lifecycle rule lasts that long, otherwise a day.
 */
export async function startCephCluster(directory: string, daySeconds?: number): Promise<CephCluster> {
  const ports = { monitor: await findFreePort(), gateway: await findFreePort() }
  const id = randomUUID()
  const configFile = join(directory, 'ceph.conf')
  for (const folder of ['mon', 'osd']) await mkdir(join(directory, folder))
  await writeFile(configFile, renderConfig(directory, id, ports, daySeconds))
  const processes: GuardedProcess[] = []
  let isStopped = false
  const stop = async () => {
    isStopped = true
    for (const one of processes.toReversed()) await one.stop({ signal: 'SIGKILL' })
  }
  const withConfig = (args: readonly string[]) => ['--conf', configFile, ...args]
  const run = (program: string, ...args: string[]) => runProgram(program, withConfig(args))
  const start = (program: string, ...args: string[]) => {
    if (isStopped) throw new Error('the cluster was stopped')
    const started = spawnGuarded({ command: program, args: withConfig(['-f', ...args]), cwd: directory })
    processes.push(started)
    return started
  }
  try {
    const map = join(directory, 'monmap')
    await run('monmaptool', '--create', '--addv', 'a', `[v1:127.0.0.1:${ports.monitor}]`, '--fsid', id, map)
    await run('ceph-mon', '-i', 'a', '--mkfs', '--monmap', map)
    const monitor = failWhenEnded('ceph-mon', () => start('ceph-mon', '-i', 'a'))
    const store = randomUUID()
    // Waits until the monitor answers.
    await Promise.race([attempting(() => run('ceph', 'osd', 'create', store)), monitor])
    await run('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', store)
    // Neither waits for the other: the gateway retries until the store is up.
    const storing = attempting(() => failWhenEnded('ceph-osd', () => start('ceph-osd', '-i', '0')))
    const serving = failWhenEnded('radosgw', () => start('radosgw', '-n', 'client.rgw'))
    await Promise.race([untilAnswering(ports.gateway), monitor, storing, serving])
  } catch (error) {
    await stop()
    throw new Error(await lastLines(directory), { cause: error })
  }
  return {
    port: ports.gateway,
    addUser: async (name, accessKeyId, secretAccessKey) => {
      const keys = ['--access-key', accessKeyId, '--secret-key', secretAccessKey]
      await run('radosgw-admin', 'user', 'create', '--uid', name, '--display-name', name, ...keys)
    },
    stop,
  }
}

/**
 * One replica and one placement group in each pool: the defaults, made for racks of disks, take 15 seconds to settle,
 * these one.
 */
function renderConfig(directory: string, id: string, ports: Ports, daySeconds: number | undefined): string {
  const settings: Readonly<Record<string, string | number>> = {
    fsid: id,
    'mon host': `v1:127.0.0.1:${ports.monitor}`,
    'public addr': '127.0.0.1',
    'auth cluster required': 'none',
    'auth service required': 'none',
    'auth client required': 'none',
    keyring: '/dev/null',
    'osd pool default size': 1,
    'osd pool default min size': 1,
    'mon allow pool size one': 'true',
    'osd crush chooseleaf type': 0,
    'osd pool default pg num': 1,
    'osd pool default pgp num': 1,
    'osd pool default pg autoscale mode': 'off',
    'paxos propose interval': 0.1,
    'osd objectstore': 'memstore',
    'memstore device bytes': 2 ** 31,
    'mon data': join(directory, 'mon'),
    'osd data': join(directory, 'osd'),
    'run dir': directory,
    // A socket's path may be too long for the system.
    'admin socket': '',
    'pid file': '',
    'log file': join(directory, '$name.log'),
    'mon cluster log file': join(directory, 'cluster.log'),
    'rgw frontends': `beast endpoint=127.0.0.1:${ports.gateway}`,
    ...(daySeconds === undefined ? {} : { 'rgw lc debug interval': daySeconds }),
  }
  return `[global]\n${Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}\n`)
    .join('')}`
}

/**
 * Repeats a step that the monitor may refuse ("wrong fsid"): a client of Ceph 16 can send its first command before it
 * knows the id of the cluster.
 */
async function attempting<T>(step: () => Promise<T>): Promise<T> {
  for (let attempt = 1; attempt < ATTEMPTS; attempt += 1) {
    try {
      return await step()
    } catch {
      await delay(POLL_MS)
    }
  }
  return await step()
}

async function failWhenEnded(name: string, start: () => GuardedProcess): Promise<never> {
  const { code, signal } = await start().exited
  throw new Error(`${name} ended (${signal ?? `exit code ${code}`})`)
}

async function lastLines(directory: string): Promise<string> {
  const read = (name: string) => readFile(join(directory, `${name}.log`), 'utf8').catch(() => '')
  const logs = await Promise.all(['mon.a', 'osd.0', 'client.rgw'].map(read))
  return ['the gateway did not start', ...logs.map((log) => log.trim().split('\n').slice(-5).join('\n'))].join('\n')
}

async function untilAnswering(port: number): Promise<void> {
  for (const startedAt = Date.now(); Date.now() - startedAt < PATIENCE_MS; await delay(POLL_MS)) {
    const answer = await fetch(`http://127.0.0.1:${port}/`).catch(() => null)
    await answer?.arrayBuffer()
    if (answer?.ok) return
  }
  throw new Error('the gateway does not answer')
}
