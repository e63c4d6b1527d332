import { settingsSchema as apiSettings, readConfig as readApiConfig } from '../../../api/config.ts'
import { PREPARATION_THREADS } from '../../../api/request/worker-threads/request-preparer.ts'
import { settingsSchema as operatorSettings, readConfig as readOperatorConfig } from '../../../operator/config.ts'
import { readConfig as readWorkerConfig, settingsSchema as workerSettings } from '../../../workers/config.ts'

/** Placeholder values for secrets and addresses that an operator sets. All of them are worthless. */
export const OPERATOR_VALUES: Readonly<Record<string, string>> = {
  ALERT_RECEIVERS: 'none',
  CHALLENGE_SECRET: 'c'.repeat(64),
  CONTACT_EMAIL: 'operator@farebox.example',
  DATABASE_URL: 'postgres://farebox:password@postgres.example:5432/farebox',
  FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
  GRAFANA_ADMIN_PASSWORD: 'password',
  OPERATOR_INITIAL_PASSWORD: 'first sign-in of operators',
  PAY_TO: `0x${'1'.repeat(40)}`,
  POSTGRES_PASSWORD: 'password',
  POSTGRES_SERVICE_PASSWORD: 'another password',
  PUBLIC_BASE_URL: 'https://farebox.example',
  QUEUE_URL: 'redis://:password@redis.example:6379/0',
  RECEIPT_SECRETS: `k1:${'d'.repeat(64)}`,
  RECEIPT_SECRET_ID: 'k1',
  RECEIPT_SIGNING_KEY: `k1:${'e'.repeat(64)}`,
  REDIS_PASSWORD: 'password',
  RPC_URL: 'https://rpc.example/base',
  S3_ACCESS_KEY_ID: 'access',
  S3_SECRET_ACCESS_KEY: 'secret',
  SETTLEMENT_CONTRACT: `0x${'4'.repeat(40)}`,
  SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}`,
}

/** Secrets that only the processes that need them may get. */
export const SECRET_SETTINGS = [
  'CHALLENGE_SECRET',
  'MIGRATION_DATABASE_URL',
  'OPERATOR_INITIAL_PASSWORD',
  'RECEIPT_SECRETS',
  'RECEIPT_SIGNING_KEY',
  'SETTLEMENT_PRIVATE_KEYS',
  'S3_SECRET_ACCESS_KEY',
] as const

/** The settings that a process reads, except provider keys, whose names the deployments file chooses. */
export const KNOWN_SETTINGS = {
  api: new Set(Object.keys(apiSettings.shape)),
  worker: new Set(Object.keys(workerSettings.shape)),
  operator: new Set(Object.keys(operatorSettings.shape)),
} as const

/** Only the migration's, but in the same .env where processes run without containers. */
const OTHER_SETTINGS = ['MIGRATION_DATABASE_URL']

/** Renders their names: no deployment may name one of them as its key. */
export function renderSettingNames(): string {
  const known = Object.values(KNOWN_SETTINGS).flatMap((settings) => [...settings])
  const names = [...new Set([...known, ...OTHER_SETTINGS])].sort()
  return `// Generated from the settings of API, workers and console: npm run generate

/** What these processes and the migration read from their environment. None of it is a key of a vendor. */
export const SETTING_NAMES: readonly string[] = [
${names.map((name) => `  '${name}',`).join('\n')}
]
`
}

export const readConfigOf = { api: readApiConfig, worker: readWorkerConfig, operator: readOperatorConfig } as const

/** Set by the image. */
export const IMAGE_SETTINGS = {
  HOST: '0.0.0.0',
  METRICS_HOST: '0.0.0.0',
  OPERATOR_HOST: '0.0.0.0',
  FFMPEG_PATH: '/usr/bin/ffmpeg',
} as const

/** The minimum time that a process manager must wait after SIGTERM, as .env.example states it for a worker. */
export const shutdownSeconds = {
  api: (environment: Readonly<Record<string, string>>): number => {
    const { DRAIN_NOTICE_SECONDS, DRAIN_SECONDS } = readApiConfig(environment)
    return DRAIN_NOTICE_SECONDS + DRAIN_SECONDS + 5
  },
  worker: (environment: Readonly<Record<string, string>>): number => readWorkerConfig(environment).DRAIN_SECONDS + 5,
  /** `CLOSE_MS` of `operator/start-console.ts`. */
  operator: (): number => 5 + 5,
} as const

/** The memory in MiB that a process needs with its settings, as infra/capacity.md states it. */
export const neededMegabytes = {
  api: (environment: Readonly<Record<string, string>>): number => {
    const { MAXIMUM_BODY_MEGABYTES, DECODERS } = readApiConfig(environment)
    return 200 + MAXIMUM_BODY_MEGABYTES + 200 * PREPARATION_THREADS + 100 * DECODERS
  },
  worker: (environment: Readonly<Record<string, string>>): number => {
    const { MAXIMUM_JOB_MEGABYTES, WORKER_QUEUES } = readWorkerConfig(environment)
    const callsProviders = WORKER_QUEUES.some((name) => name !== 'settlement')
    return callsProviders ? 400 + 1.5 * MAXIMUM_JOB_MEGABYTES : 250
  },
  operator: (): number => 250,
} as const

/** Reads a limit as manifests and Compose write it: `1280Mi`, `2Gi`, `512m`, `2g`. */
export function megabytesOf(limit: string): number {
  const [, amount, unit] = /^(\d+)(mi?|gi?)$/i.exec(limit) ?? []
  if (amount === undefined || unit === undefined) throw new Error(`not a limit: ${limit}`)
  return Number(amount) * (unit.toLowerCase().startsWith('g') ? 1024 : 1)
}
