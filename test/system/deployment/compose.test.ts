import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv, promisify } from 'node:util'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { parseDeploymentsFile, servedModels } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { extraOutputSeconds, LONGEST_OUTPUT_TOKENS } from '#shared/operations/text/output-time.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { createDeployments } from '../../../workers/providers/create-deployments.ts'
import {
  IMAGE_SETTINGS,
  KNOWN_SETTINGS,
  megabytesOf,
  neededMegabytes,
  OPERATOR_VALUES,
  readConfigOf,
  SECRET_SETTINGS,
  shutdownSeconds,
} from '../../support/deployment/deployed-settings.ts'
import { RULES_FILES, readAlerts, readInfrastructureAlerts } from '../../support/deployment/operator-files.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** Returns the settings that have a value. */
function present(environment: Readonly<Record<string, string | null>> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
  )
}
const serviceSchema = z.object({
  image: z.string(),
  command: z.array(z.string()).optional(),
  // Without a value, Compose passes a setting on if .env has it.
  environment: z.record(z.string(), z.string().nullable()).default({}).transform(present),
  env_file: z.array(z.string()).default([]),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  networks: z.array(z.string()),
  profiles: z.array(z.string()).default([]),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
  healthcheck: z.object({ test: z.array(z.string()).optional(), disable: z.boolean().optional() }).optional(),
  stop_grace_period: z.string().optional(),
  read_only: z.boolean().optional(),
  mem_limit: z.string().optional(),
  logging: z.object({ driver: z.string(), options: z.record(z.string(), z.string()) }).optional(),
})
const fileSchema = z.object({
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.object({ internal: z.boolean() }).nullable()),
})
const text = await readFile(join(ROOT, 'docker-compose.yml'), 'utf8')
const exampleEnv = await readFile(join(ROOT, 'infra/compose/example.env'), 'utf8')
const raw = fileSchema.parse(parse(text, { merge: true }))
const { services, networks } = fileSchema.parse(
  parse(text, (_, value: unknown) => (typeof value === 'string' ? interpolate(value, OPERATOR_VALUES) : value), {
    merge: true,
  }),
)
const service = (name: string) => {
  const found = services[name]
  if (!found) throw new Error(`no service ${name}`)
  return found
}
/** Replaces `${NAME:?message}` and `${NAME:-default}` as Compose does. */
function interpolate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\$\{(\w+)(?::(-|\?)([^}]*))?\}/g, (_, name: string, operator?: string, operand = '') => {
    const value = values[name]
    if (value !== undefined) return value
    if (operator === '-') return operand
    throw new Error(`${name} is not set`)
  })
}
const OUR_SERVICES = { api: 'api', worker: 'worker', settler: 'worker', console: 'operator' } as const
/** The services that take part in a call. */
const PAID_SERVICES = ['api', 'worker', 'settler']
const variables = (part: string) =>
  [...part.matchAll(/\$\{(\w+)(?::([-?]))?/g)].map(([, name = '', kind]) => ({ name, kind }))
/** Returns the services whose environment or command line contains the operator's value of this name. */
const servicesWith = (name: string) =>
  Object.entries(raw.services)
    .filter(([, { environment, command }]) =>
      variables(JSON.stringify([environment, command])).some((variable) => variable.name === name),
    )
    .map(([service]) => service)
/** Whether only one of the receivers of alerts needs this setting. */
const ofOneReceiver = (name: string) => name.startsWith('ALERT_') && name !== 'ALERT_RECEIVERS'
const isOurs = ({ image }: { image: string }) => image === 'farebox:latest'
const read = (path: string) => readFile(join(ROOT, path), 'utf8')
/** Returns the text of each copied file, by the name of the copy. */
async function copiesOf(readme: string) {
  const commands = [...(await read(readme)).matchAll(/^cp (\S+) +(\S+)/gm)]
  const copies = await Promise.all(commands.map(async ([, from = '', to = '']) => [to, await read(from)] as const))
  return new Map(copies)
}
/** Fills in the empty lines, and nothing else. */
const filled = (text: string | undefined, valueOf: (name: string) => string | undefined) =>
  Object.fromEntries(
    Object.entries(parseEnv(text ?? '')).map(([name, value]) => [name, value || (valueOf(name) ?? '')]),
  )
const notCalled = () => Promise.reject(new Error('not called'))

describe.skipIf(!havePrograms('docker-compose'))('docker-compose', () => {
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

  test('docker-compose accepts the file and reads it as these tests do', async () => {
    const { stdout } = await config(OPERATOR_VALUES)
    const read = parse(stdout) as { services: Record<string, { environment?: Record<string, string | null> }> }
    expect(Object.keys(read.services).sort()).toEqual(Object.keys(services).sort())
    for (const name of Object.keys(services))
      expect(present(read.services[name]?.environment)).toEqual(service(name).environment)
  })

  test.each([
    ['ACCEPTED_FACILITATOR_ADDRESSES', ['api']],
    ['SETTLEMENT_CONTRACT', ['api', 'settler', 'worker']],
  ])('docker-compose passes %s of .env to %j only', async (setting, expected) => {
    const address = `0x${'5'.repeat(40)}`
    const { stdout } = await config({ ...OPERATOR_VALUES, [setting]: address })
    const read = parse(stdout) as { services: Record<string, { environment?: Record<string, string> }> }
    const receiving = Object.keys(services).filter((name) => read.services[name]?.environment?.[setting] === address)
    expect(receiving.sort()).toEqual(expected)
  })

  test.each([
    'SETTLEMENT_CONTRACT',
    'SETTLEMENT_PRIVATE_KEYS',
    'CHALLENGE_SECRET',
    'OPERATOR_INITIAL_PASSWORD',
    'POSTGRES_PASSWORD',
    'PAY_TO',
    'ALERT_RECEIVERS',
  ])('docker-compose refuses to start without %s', async (missing) => {
    const { [missing]: _, ...others } = OPERATOR_VALUES
    await expect(config(others)).rejects.toThrow(`set ${missing} in .env`)
  })
})

describe('the copies that the README asks for', () => {
  test('they start API, worker, settler and console once they are filled in', async () => {
    const copies = await copiesOf('README.md')
    const values = filled(copies.get('.env'), (name) => OPERATOR_VALUES[name])
    const keys = filled(copies.get('providers.env'), () => 'a-key')
    const voices = copies.get('deployments.json')?.replaceAll(/replace-with-[\w-]+/g, 'a-voice-id') ?? ''
    for (const [name, kind] of Object.entries(OUR_SERVICES)) {
      const environment = Object.entries(raw.services[name]?.environment ?? {}).map(
        ([setting, template]) => [setting, interpolate(template, values)] as const,
      )
      expect(() => readConfigOf[kind]({ ...IMAGE_SETTINGS, ...Object.fromEntries(environment) })).not.toThrow()
    }
    const file = parseDeploymentsFile(voices)
    expect(
      createDeployments(file, { environment: keys, providerKeys: providerKeysOf(file), http: notCalled }),
    ).toHaveLength(file.deployments.length)
    expect([...servedModels(file).keys()].toSorted()).toEqual(publishedCatalog.models.map(({ id }) => id).toSorted())
    expect(availableCatalog(publishedCatalog, servedModels(file)).voices).toEqual(publishedCatalog.voices)
  })

  test('the deployments file is refused while it has the samples, by name', async () => {
    const text = (await copiesOf('README.md')).get('deployments.json') ?? ''
    expect(() => parseDeploymentsFile(text)).toThrow(/sample of the example file[^]*voices\.darian/)
  })
})

describe('settings', () => {
  test.each(Object.entries(OUR_SERVICES))('%s receives every required setting and no unknown one', (name, kind) => {
    const { environment } = service(name)
    expect(Object.keys(environment).filter((setting) => !KNOWN_SETTINGS[kind].has(setting))).toEqual([])
    expect(() => readConfigOf[kind]({ ...IMAGE_SETTINGS, ...environment })).not.toThrow()
  })

  test('operators’ settings have no default and are in the example, secrets without a value', () => {
    const optional = ['FAREBOX_IMAGE', 'LOG_LEVEL', 'OPERATOR_BASE_URL']
    const requested = variables(text).filter(({ name }) => !optional.includes(name) && !ofOneReceiver(name))
    expect(requested.filter(({ kind }) => kind !== '?')).toEqual([])
    const lines = [...exampleEnv.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => ({ name, value }))
    expect(lines.map(({ name }) => name).sort()).toEqual([...new Set(requested.map(({ name }) => name))].sort())
    const filled = lines.filter(({ value }) => value !== '').map(({ name }) => name)
    expect(filled).toEqual(['PUBLIC_BASE_URL', 'CONTACT_EMAIL', 'RPC_URL'])
    const commented = [...exampleEnv.matchAll(/^# (ALERT_\w+)=$/gm)].map(([, name]) => name)
    const used = variables(text).flatMap(({ name }) => (ofOneReceiver(name) ? [name] : []))
    expect(new Set(commented)).toEqual(new Set(used))
  })

  test('each secret reaches only the services that need it', () => {
    expect(Object.fromEntries(SECRET_SETTINGS.map((secret) => [secret, servicesWith(secret)]))).toEqual({
      CHALLENGE_SECRET: ['api'],
      // Made of POSTGRES_PASSWORD.
      MIGRATION_DATABASE_URL: [],
      OPERATOR_INITIAL_PASSWORD: ['console'],
      RECEIPT_SECRETS: ['api'],
      RECEIPT_SIGNING_KEY: ['api'],
      SETTLEMENT_PRIVATE_KEYS: ['settler'],
      S3_SECRET_ACCESS_KEY: ['bucket-init', 'api', 'worker', 'settler', 'objects'],
    })
    expect(servicesWith('POSTGRES_PASSWORD')).toEqual(['migrate', 'postgres', 'postgres-exporter'])
    const withProviderKeys = Object.entries(services).filter(([, { env_file: files }]) => files.length > 0)
    expect(withProviderKeys.map(([name, { env_file: files }]) => [name, files])).toEqual([
      ['worker', ['./providers.env']],
    ])
  })

  test('worker and settler together serve each queue once', () => {
    const served = ['worker', 'settler'].flatMap((name) => service(name).environment['WORKER_QUEUES']?.split(',') ?? [])
    expect(served.sort()).toEqual([...QUEUE_NAMES].sort())
  })
})

describe('processes', () => {
  test.each(Object.entries(OUR_SERVICES))('%s has enough time to shut down gracefully', (name, kind) => {
    const { stop_grace_period: grace = '', environment } = service(name)
    expect(Number.parseInt(grace, 10)).toBeGreaterThanOrEqual(shutdownSeconds[kind](environment))
  })

  test('a worker may finish the longest provider call before it is stopped', () => {
    const { DRAIN_SECONDS, PROVIDER_TIMEOUT_SECONDS, OUTPUT_TOKENS_PER_SECOND } = readConfigOf.worker(
      service('worker').environment,
    )
    const longest = { maximum_output_tokens: LONGEST_OUTPUT_TOKENS }
    expect(DRAIN_SECONDS).toBeGreaterThanOrEqual(
      PROVIDER_TIMEOUT_SECONDS + extraOutputSeconds(longest, OUTPUT_TOKENS_PER_SECOND),
    )
  })

  test('API, worker and settler wait for schema and bucket, the console for the schema', () => {
    for (const name of PAID_SERVICES)
      expect(service(name).depends_on).toMatchObject({
        migrate: { condition: 'service_completed_successfully' },
        'bucket-init': { condition: 'service_completed_successfully' },
      })
    expect(service('console').depends_on).toEqual({ migrate: { condition: 'service_completed_successfully' } })
    expect(service('migrate').depends_on).toMatchObject({ postgres: { condition: 'service_healthy' } })
    expect(service('bucket-init').depends_on).toMatchObject({ objects: { condition: 'service_healthy' } })
  })

  test('every service that others wait for has a health check', () => {
    const awaited = Object.values(services).flatMap(({ depends_on: on }) =>
      Object.entries(on).flatMap(([name, { condition }]) => (condition === 'service_healthy' ? [name] : [])),
    )
    expect(awaited.filter((name) => service(name).healthcheck?.test === undefined)).toEqual([])
  })

  test('no service fills the disk with its log or takes all memory of the machine', () => {
    for (const [name, { logging, mem_limit: memory }] of Object.entries(services)) {
      expect([name, logging]).toEqual([name, { driver: 'json-file', options: { 'max-size': '20m', 'max-file': '10' } }])
      expect([name, memory]).toEqual([name, expect.stringMatching(/^\d+[mg]$/)])
    }
  })

  test.each(Object.entries(OUR_SERVICES))(
    'the memory limit of %s is enough for what its settings let it hold',
    (name, kind) => {
      const { environment, mem_limit: limit = '' } = service(name)
      const needed = neededMegabytes[kind]({ ...IMAGE_SETTINGS, ...environment })
      expect(megabytesOf(limit)).toBeGreaterThanOrEqual(needed)
    },
  )

  test('the page about capacity states the formulas of these limits', async () => {
    const page = await read('infra/capacity.md')
    expect(page).toContain('600 MiB + `MAXIMUM_BODY_MEGABYTES` + 100 MiB × `DECODERS`')
    expect(page).toContain('400 MiB + 1.5 × `MAXIMUM_JOB_MEGABYTES`')
    expect(page).toMatch(/settler +\| 250 MiB/)
    expect(page).toMatch(/console +\| 250 MiB/)
  })

  test('images have exact versions, and programs and mounted files exist', async () => {
    const mounted = Object.values(services)
      .flatMap(({ volumes }) => volumes.map((volume) => volume.split(':')[0] ?? ''))
      // The others are volumes and operators' files.
      .filter((path) => path.startsWith('./infra'))
    for (const path of mounted) await stat(join(ROOT, path))
    for (const { command = [] } of Object.values(services).filter(isOurs))
      for (const program of command) await stat(join(ROOT, program))
    const others = Object.values(services).filter((service) => !isOurs(service))
    expect(others.map(({ image }) => image).filter((image) => !/:v?\d+(\.\d+)+$/.test(image))).toEqual([])
  })
})

describe('networks', () => {
  test('only the proxy has public ports; operators’ pages are on loopback', () => {
    const open = Object.entries(services).flatMap(([name, { ports }]) =>
      ports.filter((port) => !port.startsWith('127.0.0.1:')).map((port) => [name, port]),
    )
    expect(open).toEqual([
      ['proxy', '80:80'],
      ['proxy', '443:443'],
    ])
  })

  test('the stores are on an internal network that the proxy is not part of', () => {
    for (const name of ['postgres', 'redis']) expect(service(name).networks).toEqual(['data'])
    expect(service('objects').networks).toEqual(['objects'])
    for (const name of ['data', 'objects']) {
      expect(networks[name]?.internal).toBe(true)
      expect(service('proxy').networks).not.toContain(name)
    }
    expect(Object.keys(services).filter((name) => service(name).networks.includes('outside'))).toEqual(PAID_SERVICES)
  })

  test('the console answers on loopback only: the proxy shares no network with it and does not name it', async () => {
    const { ports, environment, networks: own } = service('console')
    expect(ports).toEqual([`127.0.0.1:${environment['OPERATOR_PORT']}:${environment['OPERATOR_PORT']}`])
    expect(new URL(environment['OPERATOR_BASE_URL'] ?? '').host).toBe(`127.0.0.1:${environment['OPERATOR_PORT']}`)
    expect(own.filter((name) => service('api').networks.includes(name))).toEqual(['data', 'metrics'])
    expect(await read('infra/compose/Caddyfile')).not.toMatch(/console|operator|8403/)
  })
})

describe('monitoring', () => {
  const jobsSchema = z.object({
    alerting: z.object({ alertmanagers: z.tuple([z.object({ static_configs: z.array(z.unknown()) })]) }),
    rule_files: z.array(z.string()),
    scrape_configs: z.array(
      z.object({
        job_name: z.string(),
        dns_sd_configs: z.tuple([z.object({ names: z.tuple([z.string()]), port: z.number() })]).optional(),
        static_configs: z.tuple([z.object({ targets: z.tuple([z.string()]) })]).optional(),
      }),
    ),
  })
  const readPrometheus = async () =>
    jobsSchema.parse(parse(await readFile(join(ROOT, 'infra/prometheus/prometheus.yml'), 'utf8')))

  test('Prometheus scrapes each of our processes under the job name that the alerts expect', async () => {
    const { scrape_configs: jobs } = await readPrometheus()
    const ours = jobs.flatMap(({ job_name: job, dns_sd_configs: found }) => (found ? [[job, found[0]] as const] : []))
    expect(ours.map(([job, { names }]) => [job, ...names])).toEqual(
      Object.keys(OUR_SERVICES).map((name) => [`farebox-${name}`, name]),
    )
    for (const [, { port, names }] of ours) expect(String(port)).toBe(service(names[0]).environment['METRICS_PORT'])
  })

  test('every exporter that is scraped is a service on the same network, and every job has an alert', async () => {
    const { scrape_configs: jobs } = await readPrometheus()
    const hosts = jobs.flatMap(({ static_configs: found }) => found?.[0].targets[0].split(':')[0] ?? [])
    const exporters = hosts.filter((host) => host !== '127.0.0.1')
    expect(exporters.length).toBeGreaterThan(3)
    for (const host of exporters) expect(service(host).networks).toContain('metrics')
    const known = new Set(jobs.map(({ job_name: job }) => job))
    const expressions = [...(await readAlerts()), ...(await readInfrastructureAlerts())].map(({ expr }) => expr).join()
    const named = [...expressions.matchAll(/\bjob="([\w-]+)"/g)].map(([, job = '']) => job)
    // What makes backups is up to the operator.
    expect(named.filter((job) => !known.has(job) && job !== 'farebox-backup')).toEqual([])
  })

  test('Alertmanager’s start reads exactly the settings that Compose passes', async () => {
    const script = await readFile(join(ROOT, 'infra/alertmanager/start.sh'), 'utf8')
    const passed = Object.keys(service('alertmanager').environment)
    expect(new Set(script.match(/\bALERT_[A-Z_]*[A-Z]\b/g))).toEqual(new Set(passed))
  })

  test('Prometheus reads both rule files and sends alerts to the Alertmanager of the file', async () => {
    const { alerting, rule_files: files } = await readPrometheus()
    expect(files).toEqual(RULES_FILES)
    expect(alerting.alertmanagers[0].static_configs).toEqual([{ targets: ['alertmanager:9093'] }])
    expect(service('prometheus').depends_on).toMatchObject({ alertmanager: { condition: 'service_healthy' } })
  })
})

describe.skipIf(!havePrograms('redis-server'))('the Redis service', () => {
  test('Redis with the file’s command line keeps an append-only file, evicts nothing, and works as the queue', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-redis-'))
    const port = await findFreePort()
    const [command = '', ...args] = service('redis').command ?? []
    await mkdir(join(directory, 'data'))
    const server = spawnGuarded({
      command,
      args: [...args, '--port', String(port), '--bind', '127.0.0.1', '--dir', join(directory, 'data')],
    })
    const password = OPERATOR_VALUES['REDIS_PASSWORD'] ?? ''
    // Commands wait until the server has started.
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
