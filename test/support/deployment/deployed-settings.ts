import { settingsSchema as apiSettings, readConfig as readApiConfig } from '../../../api/config.ts'
import { readConfig as readWorkerConfig, settingsSchema as workerSettings } from '../../../workers/config.ts'

/** What an operator would put in place of each secret and each address. Not one of them is good for anything. */
export const operatorsValues: Readonly<Record<string, string>> = {
  CHALLENGE_SECRET: 'c'.repeat(64),
  CONTACT_EMAIL: 'operator@farebox.example',
  DATABASE_URL: 'postgres://farebox:password@postgres.example:5432/farebox',
  FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
  GRAFANA_ADMIN_PASSWORD: 'password',
  PAY_TO: `0x${'1'.repeat(40)}`,
  POSTGRES_PASSWORD: 'password',
  PUBLIC_BASE_URL: 'https://farebox.example',
  QUEUE_URL: 'redis://:password@redis.example:6379/0',
  RECEIPT_SECRETS: `k1:${'d'.repeat(64)}`,
  RECEIPT_SECRET_ID: 'k1',
  RECEIPT_SIGNING_KEY: `k1:${'e'.repeat(64)}`,
  REDIS_PASSWORD: 'password',
  RPC_URL: 'https://rpc.example/base',
  S3_ACCESS_KEY_ID: 'access',
  S3_SECRET_ACCESS_KEY: 'secret',
  SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}`,
}

/** What has to stay where it is needed. */
export const secretSettings = [
  'CHALLENGE_SECRET',
  'RECEIPT_SECRETS',
  'RECEIPT_SIGNING_KEY',
  'SETTLEMENT_PRIVATE_KEYS',
  'S3_SECRET_ACCESS_KEY',
] as const

/** The names that a process knows, beside those of provider keys, which the deployments file chooses. */
export const knownSettings = {
  api: new Set(Object.keys(apiSettings.shape)),
  worker: new Set(Object.keys(workerSettings.shape)),
} as const

export const readConfigOf = { api: readApiConfig, worker: readWorkerConfig } as const

/** What the image itself sets. */
export const imageSettings = { HOST: '0.0.0.0', METRICS_HOST: '0.0.0.0', FFMPEG_PATH: '/usr/bin/ffmpeg' } as const

/** How long a process manager must at least wait after SIGTERM, as .env.example says for a worker. */
export const secondsToEnd = {
  api: (environment: Readonly<Record<string, string>>): number => {
    const { DRAIN_NOTICE_SECONDS, DRAIN_SECONDS } = readApiConfig(environment)
    return DRAIN_NOTICE_SECONDS + DRAIN_SECONDS + 5
  },
  worker: (environment: Readonly<Record<string, string>>): number => readWorkerConfig(environment).DRAIN_SECONDS + 5,
} as const
