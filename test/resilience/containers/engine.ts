import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseEnv, promisify } from 'node:util'
import { z } from 'zod'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { runProgram } from '../../support/processes/run-program.ts'

const NAME = 'farebox-scenario'
/**
 * Names everything that the scenario makes. Another one in each run: Podman 4.3 keeps the addresses of containers that were
 * removed by force under the name of their network, which the next of that name would resolve to.
 */
export const PROJECT = `${NAME}-${process.pid}`
const LABEL = 'com.docker.compose'
const LOOK_EVERY_MS = 500
/** A container starts behind others that start too. */
const HEALTHY_WITHIN_MS = 300_000
const MOST_OUTPUT_BYTES = 2 ** 26

export interface Container {
  readonly id: string
  readonly service: string
  readonly image: string
  readonly isRunning: boolean
  readonly health: string
  readonly pid: number
  readonly startedAt: number
  readonly addresses: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

/** Podman, and docker-compose over its socket, in the folder with docker-compose.yml and its settings. */
export interface Engine {
  podman(...args: readonly string[]): Promise<string>
  compose(...args: readonly string[]): Promise<string>
  /** Returns the containers of a service, those of all services by default. */
  containers(service?: string): Promise<readonly Container[]>
  /** Waits until as many containers of a service run and are healthy; returns the seconds. */
  untilHealthy(service: string, count?: number): Promise<number>
  /** Removes everything of the scenario, and ends Podman's service. */
  stop(): Promise<void>
}

const inspected = z.array(
  z.object({
    Id: z.string(),
    ImageName: z.string(),
    State: z.object({
      Running: z.boolean(),
      Pid: z.number(),
      StartedAt: z.coerce.date(),
      Health: z.object({ Status: z.string() }).optional(),
    }),
    Config: z.object({ Labels: z.record(z.string(), z.string()).nullable(), Env: z.array(z.string()).default([]) }),
    NetworkSettings: z.object({ Networks: z.record(z.string(), z.object({ IPAddress: z.string() })).optional() }),
  }),
)

const podman = async (...args: readonly string[]) => (await runProgram('podman', args)).toString()

export async function startEngine(directory: string): Promise<Engine> {
  const socket = join(directory, 'podman.sock')
  // Podman's timers of health checks are systemd's; here they are asked in a loop.
  process.env['DISABLE_HC_SYSTEMD'] = 'true'
  const args = ['system', 'service', '--time=0', `unix://${socket}`]
  const service: GuardedProcess = spawnGuarded({ command: 'podman', args })
  /** Ends what is under way when the scenario is interrupted: it must not start what was removed. */
  const ending = new AbortController()
  const compose = async (...args: readonly string[]) => {
    const { stdout, stderr } = await promisify(execFile)('docker-compose', ['--project-name', PROJECT, ...args], {
      cwd: directory,
      env: { PATH: process.env['PATH'] ?? '', HOME: directory, DOCKER_HOST: `unix://${socket}` },
      maxBuffer: MOST_OUTPUT_BYTES,
      signal: ending.signal,
    })
    return stdout + stderr
  }
  const containers = async (name?: string) => {
    const filter = `label=${LABEL}.${name === undefined ? `project=${PROJECT}` : `service=${name}`}`
    const ids = (await podman('ps', '--all', '--quiet', '--no-trunc', '--filter', filter)).split('\n').filter(Boolean)
    // One may be removed in between.
    const all = await Promise.all(ids.map((id) => podman('inspect', id).then(describe, () => [])))
    return all.flat()
  }
  const asked = Promise.all([
    untilAborted(ending.signal, () => askForHealth(containers)),
    untilAborted(ending.signal, holdAddresses),
  ])
  const remove = async () => {
    const ids = (await podman('ps', '--all', '--quiet', '--filter', `name=^${NAME}-`)).split('\n').filter(Boolean)
    for (const id of ids) await podman('rm', '--force', '--time', '0', '--volumes', id).catch(() => '')
    for (const kind of ['volume', 'network']) {
      const names = (await podman(kind, 'ls', '--format', '{{.Name}}')).split('\n')
      for (const one of names.filter((each) => each.startsWith(`${NAME}-`)))
        await podman(kind, 'rm', '--force', one).catch(() => '')
    }
  }
  await remove()
  return {
    podman,
    compose,
    containers,
    untilHealthy: async (name, count = 1) => {
      const startedAt = performance.now()
      for (;;) {
        const healthy = (await containers(name)).filter(({ isRunning, health }) => isRunning && health === 'healthy')
        if (healthy.length >= count) return (performance.now() - startedAt) / 1000
        if (performance.now() - startedAt > HEALTHY_WITHIN_MS) throw new Error(`${name} does not become healthy`)
        await delay(LOOK_EVERY_MS)
      }
    },
    stop: async () => {
      ending.abort()
      await asked
      await remove()
      await service.stop()
    },
  }
}

function describe(json: string): Container[] {
  return inspected.parse(JSON.parse(json)).map(({ Id, ImageName, State, Config, NetworkSettings }) => ({
    id: Id,
    service: Config.Labels?.[`${LABEL}.service`] ?? '',
    image: ImageName,
    isRunning: State.Running,
    health: State.Health?.Status ?? '',
    pid: State.Pid,
    startedAt: State.StartedAt.getTime(),
    addresses: Object.values(NetworkSettings.Networks ?? {}).map(({ IPAddress }) => IPAddress),
    environment: parseEnv(Config.Env.join('\n')) as Record<string, string>,
  }))
}

/** Repeats what fails while containers come and go. */
async function untilAborted(signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await act().catch(() => undefined)
    await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
  }
}

/** Asks the containers that are not healthy yet: a container that was healthy and fails is found by the calls that fail. */
async function askForHealth(containers: Engine['containers']): Promise<void> {
  const waiting = (await containers()).filter(
    ({ isRunning, health }) => isRunning && health !== '' && health !== 'healthy',
  )
  for (const { id } of waiting) await podman('healthcheck', 'run', id).catch(() => '')
}

/** Of `addr_assign_type`: the address was set, and so stays. */
const ADDRESS_WAS_SET = '3'

/**
 * Sets the hardware address that each bridge has. Otherwise it is the lowest of its containers', which go on sending to the
 * old one for up to half a minute after another came or went: resolver, chain and vendors are lost meanwhile. Netavark sets
 * it since the end of 2023 (containers/netavark, pull request 833, read on 2026-11-29); Debian 12 has 1.4.
 */
async function holdAddresses(): Promise<void> {
  const names = await podman('network', 'ls', '--filter', `name=^${NAME}-`, '--format', '{{.Name}}')
  const networks = names.split('\n').filter(Boolean)
  if (networks.length === 0) return
  const bridges = await podman('network', 'inspect', '--format', '{{.NetworkInterface}}', ...networks)
  for (const bridge of bridges.split('\n').filter(Boolean)) await holdAddress(bridge).catch(() => undefined)
}

/** Rejects for a bridge that is not there, as before its network's first container. */
async function holdAddress(bridge: string): Promise<void> {
  const read = async (file: string) => (await readFile(`/sys/class/net/${bridge}/${file}`, 'utf8')).trim()
  if ((await read('addr_assign_type')) === ADDRESS_WAS_SET) return
  await runProgram('ip', ['link', 'set', 'dev', bridge, 'address', await read('address')])
}
