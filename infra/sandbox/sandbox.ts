import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { migrateAll } from '../commands/migrate.ts'
import { sandboxDeployments } from './deployments.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID, startDevnet } from './devnet.ts'
import { startPostgres } from './embedded-postgres.ts'
import { findFreePort } from './free-port.ts'
import { fundSandboxAccounts } from './fund-devnet.ts'
import type { ProcessExit } from './guarded-process.ts'
import { replaceFile } from './replace-file.ts'
import { startService } from './service-processes.ts'
import { discardState, keepSecrets, type SandboxSecrets } from './state-directory.ts'

/** The variable that the deployments file names. */
const UPSTREAM_KEY = 'SIMULATED_UPSTREAM_KEY'
/** The sandbox never rotates its one receipt secret. */
const RECEIPT_SECRET_ID = 'k1'

/** What `sandbox.json` holds. Outside programs read it: fields are added, never renamed. */
export interface SandboxInfo {
  baseUrl: string
  rpcUrl: string
  payer: { address: string; privateKey: `0x${string}` }
  payTo: string
  usdc: string
  network: string
  databaseUrl: string
  upstreamUrl: string
  pids: { api: number; worker: number; chain: number }
}

export interface SandboxOptions {
  /** Where state is kept between starts. */
  directory: string
  /** Where `sandbox.json` goes; left out: nowhere. */
  sandboxFile?: string
  fresh?: boolean
  upstreamDelayMs?: number
  blockTimeSeconds?: number
  /** Changes the deployments file before it is written. */
  deployments?: (all: DeploymentsFileInput) => DeploymentsFileInput
  /** Additional settings of API and worker, over the sandbox's own. */
  apiEnvironment?: Record<string, string>
  workerEnvironment?: Record<string, string>
  /** Starts a facilitator that holds the settlement key, and gives its URL; left out: the worker holds the key itself. */
  startFacilitator?: (chain: { rpcUrl: string; privateKey: `0x${string}` }) => Promise<string>
  /** Told each step of the start, with the time it took. */
  onStep?: (name: string, detail: string, milliseconds: number) => void
}

type PartName = 'database' | 'chain' | 'upstream' | 'api' | 'worker'

interface Part {
  pid: number
  stop(): Promise<void>
  exited: Promise<ProcessExit>
}

/** A running sandbox. The caller decides what the crash of a part means; the supervisor's answer is to stop everything. */
export interface Sandbox {
  info: SandboxInfo
  /** The first part that ended without being asked to. */
  crashed: Promise<{ part: PartName; exit: ProcessExit }>
  /** Starts API or worker again, at the same address, after it has ended. */
  restart(part: 'api' | 'worker'): Promise<void>
  pidOf(part: PartName): number
  stop(): Promise<void>
}

/** Everything that farebox needs, each part a real process or server on loopback. Stops what it started when it fails. */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const parts = new Map<PartName, Part>()
  const crashed = Promise.withResolvers<{ part: PartName; exit: ProcessExit }>()
  // A part that was replaced or stopped on purpose is no longer in the map.
  const reportCrash = (name: PartName, part: Part, exit: ProcessExit) =>
    parts.get(name) === part ? crashed.resolve({ part: name, exit }) : undefined
  const add = <P extends Part>(name: PartName, part: P): P => {
    parts.set(name, part)
    void part.exited.then((exit) => reportCrash(name, part, exit))
    return part
  }
  const stop = async () => {
    await stopInOrder(parts)
    if (options.sandboxFile) await rm(options.sandboxFile, { force: true })
  }
  try {
    return await startParts(options, add, (info, restart) => ({
      info,
      crashed: crashed.promise,
      restart,
      pidOf: (name) => parts.get(name)?.pid ?? 0,
      stop,
    }))
  } catch (error) {
    await stop()
    throw error
  }
}

async function startParts(
  options: SandboxOptions,
  add: <P extends Part>(name: PartName, part: P) => P,
  assemble: (info: SandboxInfo, restart: Sandbox['restart']) => Sandbox,
): Promise<Sandbox> {
  const { directory } = options
  const step = reporter(options)
  if (options.fresh) await discardState(directory)
  await mkdir(directory, { recursive: true })
  const secrets = await keepSecrets(directory)
  const [database, chain, upstream] = await Promise.all([
    step('database', 'PostgreSQL 18 with the ledger’s schema', () => startDatabase(directory, add)),
    step('chain', `devnet ${DEVNET_CHAIN_ID} with USDC, Permit2 and the x402 proxy`, () =>
      startChain(options, secrets, add),
    ),
    step('upstream', 'simulated vendors of text, images and speech', () => startUpstream(options, secrets, add)),
  ])
  const { address: facilitator, privateKey } = secrets.accounts.settlement
  const facilitatorUrl = await options.startFacilitator?.({ rpcUrl: chain.rpcUrl, privateKey })
  const apiPort = await findFreePort()
  const baseUrl = `http://127.0.0.1:${apiPort}`
  const shared = {
    DATABASE_URL: database.connectionString,
    OBJECT_STORE_DIRECTORY: join(directory, 'uploads'),
    RPC_URL: chain.rpcUrl,
    PUBLIC_BASE_URL: baseUrl,
    DEPLOYMENTS_FILE: await writeDeployments(options, upstream.url),
  }
  const logsDirectory = join(directory, 'logs')
  const start = {
    api: () =>
      startService({
        name: 'api',
        entry: 'api/main.ts',
        logsDirectory,
        isReady: (line) => line.includes('listening on'),
        environment: {
          ...shared,
          PORT: String(apiPort),
          CONTACT_EMAIL: 'sandbox@farebox.example',
          PAY_TO: secrets.accounts.recipient.address,
          ...(facilitatorUrl === undefined
            ? { FACILITATOR_ADDRESSES: facilitator }
            : { FACILITATOR_URL: facilitatorUrl }),
          CHALLENGE_SECRET: secrets.challengeSecret,
          RECEIPT_SECRETS: `${RECEIPT_SECRET_ID}:${secrets.receiptSecret}`,
          ...options.apiEnvironment,
        },
      }),
    worker: () =>
      startService({
        name: 'worker',
        entry: 'workers/main.ts',
        logsDirectory,
        isReady: (line) => line.includes('taking jobs'),
        environment: {
          ...shared,
          RECEIPT_SECRET_ID,
          // Its blocks come at once, so that whatever waits longer is stuck.
          FEE_BUMP_AFTER_SECONDS: '3',
          ...(facilitatorUrl === undefined
            ? { SETTLEMENT_PRIVATE_KEYS: privateKey }
            : { FACILITATOR_URL: facilitatorUrl }),
          [UPSTREAM_KEY]: secrets.upstreamApiKey,
          ...options.workerEnvironment,
        },
      }),
  }
  const [api, worker] = await Promise.all([
    step('api', baseUrl, async () => add('api', await start.api())),
    step('worker', 'takes jobs, calls the provider, settles', async () => add('worker', await start.worker())),
  ])
  const info: SandboxInfo = {
    baseUrl,
    rpcUrl: chain.rpcUrl,
    payer: secrets.accounts.payer,
    payTo: secrets.accounts.recipient.address,
    usdc: DEVNET_ADDRESSES.usdc,
    network: `eip155:${DEVNET_CHAIN_ID}`,
    databaseUrl: database.connectionString,
    upstreamUrl: upstream.url,
    pids: { api: api.pid, worker: worker.pid, chain: chain.pid },
  }
  const publish = async () => {
    if (options.sandboxFile) await replaceFile(options.sandboxFile, `${JSON.stringify(info, null, 2)}\n`)
  }
  await publish()
  return assemble(info, async (name) => {
    info.pids[name] = add(name, await start[name]()).pid
    await publish()
  })
}

type AddPart = <P extends Part>(name: PartName, part: P) => P

async function startDatabase(directory: string, add: AddPart) {
  const database = add('database', await startPostgres({ dataDirectory: join(directory, 'postgres') }))
  await migrateAll(database.connectionString)
  return database
}

async function startChain(options: SandboxOptions, { accounts }: SandboxSecrets, add: AddPart) {
  const chainDirectory = join(options.directory, 'chain')
  const chain = add(
    'chain',
    await startDevnet({
      directory: join(options.directory, 'contracts'),
      stateFile: join(chainDirectory, 'state.json'),
      ...(options.blockTimeSeconds === undefined ? {} : { blockTimeSeconds: options.blockTimeSeconds }),
    }),
  )
  await fundSandboxAccounts(chain.rpcUrl, accounts)
  return chain
}

async function startUpstream(options: SandboxOptions, { upstreamApiKey }: SandboxSecrets, add: AddPart) {
  const upstream = add(
    'upstream',
    await startService({
      name: 'upstream',
      entry: 'infra/sandbox/upstream/main.ts',
      logsDirectory: join(options.directory, 'logs'),
      isReady: (line) => line.startsWith('{"listening":'),
      environment: {
        UPSTREAM_DELAY_MS: String(options.upstreamDelayMs ?? 0),
        UPSTREAM_API_KEY: upstreamApiKey,
        UPSTREAM_CALL_LOG: join(options.directory, 'upstream-calls.jsonl'),
      },
    }),
  )
  const { listening } = JSON.parse(upstream.readyLine) as { listening: number }
  return { ...upstream, url: `http://127.0.0.1:${listening}` }
}

/** Every model of the catalog, served by the simulated upstream on several vendors' wires. */
async function writeDeployments({ directory, deployments }: SandboxOptions, upstreamUrl: string): Promise<string> {
  const path = join(directory, 'deployments.json')
  const all = sandboxDeployments({
    upstreamUrl,
    apiKeyEnv: UPSTREAM_KEY,
    models: publishedCatalog.models,
    voices: publishedCatalog.voices.map(({ id }) => id),
  })
  await replaceFile(path, JSON.stringify(deployments ? deployments(all) : all, null, 2))
  return path
}

/** Those who use others stop first, so that nobody sees a dependency vanish. */
const STOP_ORDER: readonly PartName[][] = [['api'], ['worker'], ['upstream', 'chain', 'database']]

async function stopInOrder(parts: Map<PartName, Part>): Promise<void> {
  for (const names of STOP_ORDER) {
    const stopping = names.flatMap((name) => parts.get(name) ?? [])
    for (const name of names) parts.delete(name)
    await Promise.all(stopping.map((part) => part.stop()))
  }
}

function reporter({ onStep }: SandboxOptions) {
  return async <T>(name: PartName, detail: string, start: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const result = await start()
    onStep?.(name, detail, Math.round(performance.now() - startedAt))
    return result
  }
}
