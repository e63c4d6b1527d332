import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { queueNames } from '#shared/jobs/job-queue.ts'
import { findFreePort } from '../../../infra/sandbox/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/guarded-process.ts'
import {
  imageSettings,
  knownSettings,
  operatorsValues,
  readConfigOf,
  secondsToEnd,
  secretSettings,
} from '../../support/deployment/deployed-settings.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

const serviceSchema = z.object({
  image: z.string(),
  command: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  env_file: z.array(z.string()).default([]),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  networks: z.array(z.string()),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
  healthcheck: z.object({ test: z.array(z.string()).optional(), disable: z.boolean().optional() }).optional(),
  stop_grace_period: z.string().optional(),
  read_only: z.boolean().optional(),
})
const fileSchema = z.object({
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.object({ internal: z.boolean() }).nullable()),
})

const text = await readFile(join(ROOT, 'docker-compose.yml'), 'utf8')
const exampleEnv = await readFile(join(ROOT, 'infra/compose/example.env'), 'utf8')
const raw = fileSchema.parse(parse(text, { merge: true }))
const { services, networks } = fileSchema.parse(
  parse(text, (_, value: unknown) => (typeof value === 'string' ? interpolate(value, operatorsValues) : value), {
    merge: true,
  }),
)
const service = (name: string) => {
  const found = services[name]
  if (!found) throw new Error(`no service ${name}`)
  return found
}

/** `${NAME:?message}` and `${NAME:-default}`, as Compose reads them. */
function interpolate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\$\{(\w+)(?::(-|\?)([^}]*))?\}/g, (_, name: string, operator?: string, operand = '') => {
    const value = values[name]
    if (value !== undefined) return value
    if (operator === '-') return operand
    throw new Error(`${name} is not set`)
  })
}

const ours = { api: 'api', worker: 'worker', settler: 'worker' } as const
const variables = (part: string) =>
  [...part.matchAll(/\$\{(\w+)(?::([-?]))?/g)].map(([, name = '', kind]) => ({ name, kind }))

/** The services whose environment or command line is made of the operator's value of this name. */
const holders = (name: string) =>
  Object.entries(raw.services)
    .filter(([, { environment, command }]) =>
      variables(JSON.stringify([environment, command])).some((variable) => variable.name === name),
    )
    .map(([service]) => service)
const isOurs = ({ image }: { image: string }) => image === 'farebox:latest'

describe.skipIf(!havePrograms('docker-compose'))('docker-compose itself', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-compose-'))
    await copyFile(join(ROOT, 'docker-compose.yml'), join(directory, 'docker-compose.yml'))
    await writeFile(join(directory, 'providers.env'), '')
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  const config = async (values: Readonly<Record<string, string>>) => {
    const lines = Object.entries(values).map(([name, value]) => `${name}=${value}`)
    await writeFile(join(directory, '.env'), `${lines.join('\n')}\n`)
    const environment = { PATH: process.env['PATH'] ?? '', HOME: directory }
    return await promisify(execFile)('docker-compose', ['--profile', 'observability', 'config'], {
      cwd: directory,
      env: environment,
    })
  }

  test('accepts the file, and reads it as these tests do', async () => {
    const { stdout } = await config(operatorsValues)
    const read = parse(stdout) as { services: Record<string, { environment?: Record<string, string> }> }
    expect(Object.keys(read.services).sort()).toEqual(Object.keys(services).sort())
    for (const name of Object.keys(services))
      expect(read.services[name]?.environment ?? {}).toEqual(service(name).environment)
  })

  test.each(['SETTLEMENT_PRIVATE_KEYS', 'CHALLENGE_SECRET', 'POSTGRES_PASSWORD', 'PAY_TO'])(
    'refuses to go on without %s',
    async (missing) => {
      const { [missing]: _, ...others } = operatorsValues
      await expect(config(others)).rejects.toThrow(`set ${missing} in .env`)
    },
  )
})

describe('settings', () => {
  test.each(Object.entries(ours))('%s is given what it needs, and nothing that it does not know', (name, kind) => {
    const { environment } = service(name)
    expect(Object.keys(environment).filter((setting) => !knownSettings[kind].has(setting))).toEqual([])
    expect(() => readConfigOf[kind]({ ...imageSettings, ...environment })).not.toThrow()
  })

  test('what an operator sets has no default, stands in the example, and its secrets are empty there', () => {
    const optional = ['FAREBOX_IMAGE', 'LOG_LEVEL']
    const asked = variables(text).filter(({ name }) => !optional.includes(name))
    expect(asked.filter(({ kind }) => kind !== '?')).toEqual([])
    const lines = [...exampleEnv.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => ({ name, value }))
    expect(lines.map(({ name }) => name).sort()).toEqual([...new Set(asked.map(({ name }) => name))].sort())
    const filled = lines.filter(({ value }) => value !== '').map(({ name }) => name)
    expect(filled).toEqual(['PUBLIC_BASE_URL', 'CONTACT_EMAIL', 'RPC_URL'])
  })

  test('a secret reaches only those who need it', () => {
    expect(Object.fromEntries(secretSettings.map((secret) => [secret, holders(secret)]))).toEqual({
      CHALLENGE_SECRET: ['api'],
      RECEIPT_SECRETS: ['api'],
      RECEIPT_SIGNING_KEY: ['api'],
      SETTLEMENT_PRIVATE_KEYS: ['settler'],
      S3_SECRET_ACCESS_KEY: ['bucket-init', 'api', 'worker', 'settler', 'objects'],
    })
    const withProviderKeys = Object.entries(services).filter(([, { env_file: files }]) => files.length > 0)
    expect(withProviderKeys.map(([name, { env_file: files }]) => [name, files])).toEqual([
      ['worker', ['./providers.env']],
    ])
  })

  test('worker and settler serve each queue once', () => {
    const served = ['worker', 'settler'].flatMap((name) => service(name).environment['WORKER_QUEUES']?.split(',') ?? [])
    expect(served.sort()).toEqual([...queueNames].sort())
  })
})

describe('processes', () => {
  test.each(Object.entries(ours))('%s has the time to end in good order', (name, kind) => {
    const { stop_grace_period: grace = '', environment } = service(name)
    expect(Number.parseInt(grace, 10)).toBeGreaterThanOrEqual(secondsToEnd[kind](environment))
  })

  test('a worker may end the longest provider call before it is stopped', () => {
    const { DRAIN_SECONDS, PROVIDER_TIMEOUT_SECONDS } = readConfigOf.worker(service('worker').environment)
    expect(DRAIN_SECONDS).toBeGreaterThanOrEqual(PROVIDER_TIMEOUT_SECONDS)
  })

  test('all wait until schema and bucket are there', () => {
    for (const name of Object.keys(ours))
      expect(service(name).depends_on).toMatchObject({
        migrate: { condition: 'service_completed_successfully' },
        'bucket-init': { condition: 'service_completed_successfully' },
      })
    expect(service('migrate').depends_on).toMatchObject({ postgres: { condition: 'service_healthy' } })
    expect(service('bucket-init').depends_on).toMatchObject({ objects: { condition: 'service_healthy' } })
  })

  test('every service that is waited for until it is healthy has a health check', () => {
    const awaited = Object.values(services).flatMap(({ depends_on: on }) =>
      Object.entries(on).flatMap(([name, { condition }]) => (condition === 'service_healthy' ? [name] : [])),
    )
    expect(awaited.filter((name) => service(name).healthcheck?.test === undefined)).toEqual([])
  })

  test('images have exact versions, and programs and mounted files are there', async () => {
    const mounted = Object.values(services)
      .flatMap(({ volumes }) => volumes.map((volume) => volume.split(':')[0] ?? ''))
      // The rest is volumes, and what the operator writes.
      .filter((path) => path.startsWith('./infra'))
    for (const path of mounted) await stat(join(ROOT, path))
    for (const { command = [] } of Object.values(services).filter(isOurs))
      for (const program of command) await stat(join(ROOT, program))
    const others = Object.values(services).filter((one) => !isOurs(one))
    expect(others.map(({ image }) => image).filter((image) => !/:v?\d+(\.\d+)+$/.test(image))).toEqual([])
  })
})

describe('networks', () => {
  test('only the proxy is open to the world; operators’ pages are on loopback', () => {
    const open = Object.entries(services).flatMap(([name, { ports }]) =>
      ports.filter((port) => !port.startsWith('127.0.0.1:')).map((port) => [name, port]),
    )
    expect(open).toEqual([
      ['proxy', '80:80'],
      ['proxy', '443:443'],
    ])
  })

  test('the stores are on a network without a way out, which the proxy is not on', () => {
    for (const name of ['postgres', 'redis', 'objects']) expect(service(name).networks).toEqual(['data'])
    expect(networks['data']?.internal).toBe(true)
    expect(service('proxy').networks).not.toContain('data')
    expect(Object.keys(services).filter((name) => service(name).networks.includes('outside'))).toEqual(
      Object.keys(ours),
    )
  })
})

describe.skipIf(!havePrograms('redis-server'))('the Redis of the file, started as it says', () => {
  test('keeps an append-only file, evicts nothing, and is taken by our queue', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-redis-'))
    const port = await findFreePort()
    const [command = '', ...args] = service('redis').command ?? []
    await mkdir(join(directory, 'data'))
    const server = spawnGuarded({
      command,
      args: [...args, '--port', String(port), '--bind', '127.0.0.1', '--dir', join(directory, 'data')],
    })
    const password = operatorsValues['REDIS_PASSWORD'] ?? ''
    // Its commands wait for the server, however long that takes to start.
    const client = new Redis({ port, host: '127.0.0.1', password, maxRetriesPerRequest: null })
    client.on('error', () => undefined)
    try {
      expect(await client.info('persistence')).toContain('aof_enabled:1')
      expect(await client.info('memory')).toContain('maxmemory_policy:noeviction')
      const url = (service('api').environment['QUEUE_URL'] ?? '').replace('redis:6379', `127.0.0.1:${port}`)
      const settings = { DATABASE_URL: 'postgres://127.0.0.1:1/none', QUEUE_URL: url, QUEUE_PREFIX: '{farebox}' }
      const queue = await openJobQueue(settings, () => undefined)
      await queue.enqueue('6b1f2c9e-7d1c-4d3f-9a50-0d6a3c1b2e4f', 'text')
      await queue.close()
    } finally {
      client.disconnect()
      await server.stop()
      await rm(directory, { recursive: true, force: true })
    }
  })
})
