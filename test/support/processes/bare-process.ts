import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatePrivateKey } from 'viem/accounts'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { COMPILE_CACHE } from './run-program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export type Settings = Record<string, string | undefined>
export type Kind = 'api' | 'worker' | 'console'

const ENTRIES = { api: 'api/main.ts', worker: 'workers/main.ts', console: 'operator/main.ts' } as const
/** The line that each process logs once it has started. */
export const READY_LINES = { api: 'listening on', worker: 'taking jobs', console: 'listening on' } as const

export const SETTLEMENT_KEY = generatePrivateKey()

/** Settings with which each kind of process starts, alone: nothing that it refers to is reached before there is work. */
export interface BareSettings {
  readonly folder: string
  readonly of: Readonly<Record<Kind, Settings>>
  remove(): Promise<void>
}

/** Writes the files that the settings name, in a folder of their own. */
export async function createBareSettings(databaseUrl: string): Promise<BareSettings> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-settings-'))
  const upstream = { base_url: 'http://127.0.0.1:1', upstream_model: 'a-model' }
  const deployment = { name: 'a', adapter: 'gemini', api_key_env: 'UPSTREAM_KEY', serves: ['textmodel-2.5-pro'] }
  await writeFile(join(folder, 'deployments.json'), JSON.stringify({ deployments: [{ ...deployment, ...upstream }] }))
  const common = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    DATABASE_URL: databaseUrl,
    // Unreachable, but not used before there is work.
    RPC_URL: 'http://127.0.0.1:1',
  }
  const serving = {
    ...common,
    OBJECT_STORE_DIRECTORY: join(folder, 'objects'),
    PUBLIC_BASE_URL: 'https://farebox.example',
    DEPLOYMENTS_FILE: join(folder, 'deployments.json'),
  }
  return {
    folder,
    of: {
      api: {
        ...serving,
        PORT: '0',
        DRAIN_NOTICE_SECONDS: '0',
        CONTACT_EMAIL: 'operator@farebox.example',
        PAY_TO: `0x${'1'.repeat(40)}`,
        FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
        CHALLENGE_SECRET: 'c'.repeat(32),
        RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
        RECEIPT_SIGNING_KEY: `k1:${'5'.repeat(64)}`,
      },
      worker: {
        ...serving,
        RECEIPT_SECRET_ID: 'k1',
        SETTLEMENT_PRIVATE_KEYS: SETTLEMENT_KEY,
        UPSTREAM_KEY: 'a-key',
      },
      console: { ...common, OPERATOR_PORT: '0' },
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

export interface BareProcess extends GuardedProcess {
  readonly lines: readonly string[]
}

/** Starts a program of the repository; a setting that is undefined is left out. */
export function startBare(
  entry: Kind | `infra/commands/${string}`,
  settings: Settings,
  { args = [], onLine = () => undefined }: { args?: readonly string[]; onLine?: (line: string) => void } = {},
): BareProcess {
  const lines: string[] = []
  const env = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
  const path = entry in ENTRIES ? ENTRIES[entry as Kind] : entry
  const run = spawnGuarded({
    command: process.execPath,
    args: [join(ROOT, path), ...args],
    cwd: ROOT,
    env,
    log: (line) => {
      lines.push(line)
      onLine(line)
    },
  })
  return { ...run, lines }
}
