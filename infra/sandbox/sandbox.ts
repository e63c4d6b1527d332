import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { migrateAll } from '../commands/migrate.ts'
import { sandboxDeployments, UPSTREAM_KEY } from './deployments.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID, startDevnet } from './devnet.ts'
import { startPostgres } from './embedded-postgres.ts'
import { fundSandboxAccounts, fundSettlementAccount } from './fund-devnet.ts'
import type { ProcessExit } from './guarded-process.ts'
import type { OuterServices } from './outer-services.ts'
import { planProcesses, type ServiceName } from './process-plan.ts'
import { replaceFile } from './replace-file.ts'
import { startService } from './service-processes.ts'
import { discardState, keepSecrets, type SandboxSecrets, settlementAccounts } from './state-directory.ts'

/** What `sandbox.json` holds. Outside programs read it: fields are added, never renamed. */
export interface SandboxInfo {
  /** Of the first API. */
  baseUrl: string
  /** Of every API. */
  baseUrls: string[]
  rpcUrl: string
  payer: { address: string; privateKey: `0x${string}` }
  payTo: string
  /** Who sends the settlements. */
  settlementAddresses: string[]
  usdc: string
  network: string
  databaseUrl: string
  upstreamUrl: string
  pids: { api: number; worker: number; chain: number; [further: `${'api' | 'worker'}-${number}`]: number }
}

/** What API and workers reach over a network. */
export interface Connections {
  readonly databaseUrl: string
  readonly queueUrl: string
  readonly rpcUrl: string
  readonly upstreamUrl: string
}

export interface SandboxOptions {
  /** Where state is kept between starts. */
  directory: string
  /** Where `sandbox.json` goes; left out: nowhere. */
  sandboxFile?: string
  fresh?: boolean
  upstreamDelayMs?: number
  blockTimeSeconds?: number
  /** How many processes of each kind run; one when left out. */
  apis?: number
  workers?: number
  /** How many accounts send the settlements; one when left out. */
  settlementKeys?: number
  /** What runs as API and as worker, as paths below the repository; `api/main.ts` and `workers/main.ts` when left out. */
  apiEntry?: string
  workerEntry?: string
  /** Puts something in between: told where things really are, it says where API and workers are to look for them. */
  connections?: (real: Connections) => Promise<Connections>
  /** A migrated database that the caller runs, in place of the sandbox's own PostgreSQL. */
  databaseUrl?: string
  /** Changes the deployments file before it is written. */
  deployments?: (all: DeploymentsFileInput) => DeploymentsFileInput
  /** A queue and an object store that the caller runs, in place of the sandbox's own. */
  outerServices?: OuterServices
  /** Additional settings of API and worker, over the sandbox's own. */
  apiEnvironment?: Record<string, string>
  workerEnvironment?: Record<string, string>
  /** More settings of the one process with this name, over all others. */
  environmentOf?: (name: ServiceName) => Record<string, string>
  /** Starts a facilitator that holds the settlement key, and gives its URL; left out: the worker holds the key itself. */
  startFacilitator?: (chain: { rpcUrl: string; privateKey: `0x${string}` }) => Promise<string>
  /** Told each step of the start, with the time it took. */
  onStep?: (name: string, detail: string, milliseconds: number) => void
}

type PartName = 'database' | 'chain' | 'upstream' | ServiceName

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
  /** Starts an API, a worker or the database again, at the same address, once the present one has ended; tells how it ended. */
  restart(part: ServiceName | 'database'): Promise<ProcessExit | undefined>
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
    return await startParts(options, add, (info, start) => ({
      info,
      crashed: crashed.promise,
      restart: async (name) => {
        const exit = await parts.get(name)?.exited
        await start(name)
        return exit
      },
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
  add: AddPart,
  assemble: (info: SandboxInfo, start: (name: ServiceName | 'database') => Promise<void>) => Sandbox,
): Promise<Sandbox> {
  const { directory, settlementKeys = 1 } = options
  const step = reporter(options)
  if (options.fresh) await discardState(directory)
  await mkdir(directory, { recursive: true })
  const secrets = await keepSecrets(directory, settlementKeys)
  const [database, chain, upstream] = await Promise.all([
    step('database', 'PostgreSQL 18 with the ledger’s schema', () => startDatabase(options, add)),
    step('chain', `devnet ${DEVNET_CHAIN_ID} with USDC, Permit2 and the x402 proxy`, () =>
      startChain(options, secrets, add),
    ),
    step('upstream', 'simulated vendors of text, images and speech', () => startUpstream(options, secrets, add)),
  ])
  const { privateKey } = secrets.accounts.settlement
  const facilitatorUrl = await options.startFacilitator?.({ rpcUrl: chain.rpcUrl, privateKey })
  const real = {
    databaseUrl: database.connectionString,
    queueUrl: options.outerServices?.['QUEUE_URL'] ?? database.connectionString,
    rpcUrl: chain.rpcUrl,
    upstreamUrl: upstream.url,
  }
  const connections = (await options.connections?.(real)) ?? real
  const deploymentsFile = await writeDeployments(options, connections.upstreamUrl)
  const plan = await planProcesses(options, { connections, deploymentsFile, secrets, facilitatorUrl })
  const start = async (name: ServiceName) => add(name, await plan.start(name))
  const started = await Promise.all(
    plan.names.map(async (name) => [name, await step(name, plan.describe(name), () => start(name))] as const),
  )
  const pids = Object.fromEntries(started.map(([name, { pid }]) => [name, pid]))
  const info: SandboxInfo = {
    baseUrl: plan.baseUrls[0],
    baseUrls: plan.baseUrls,
    rpcUrl: chain.rpcUrl,
    payer: secrets.accounts.payer,
    payTo: secrets.accounts.recipient.address,
    settlementAddresses: settlementAccounts(secrets, settlementKeys).map(({ address }) => address),
    usdc: DEVNET_ADDRESSES.usdc,
    network: `eip155:${DEVNET_CHAIN_ID}`,
    databaseUrl: database.connectionString,
    upstreamUrl: upstream.url,
    pids: { api: 0, worker: 0, ...pids, chain: chain.pid },
  }
  const publish = async () => {
    if (options.sandboxFile) await replaceFile(options.sandboxFile, `${JSON.stringify(info, null, 2)}\n`)
  }
  await publish()
  return assemble(info, async (name) => {
    if (name === 'database') {
      if (database.port === undefined) throw new Error('this sandbox runs no database of its own')
      add(name, await startPostgres({ dataDirectory: join(directory, 'postgres'), port: database.port }))
      return
    }
    info.pids[name] = (await start(name)).pid
    await publish()
  })
}

type AddPart = <P extends Part>(name: PartName, part: P) => P

async function startDatabase(
  { directory, databaseUrl }: SandboxOptions,
  add: AddPart,
): Promise<{ connectionString: string; port?: number }> {
  if (databaseUrl !== undefined) return { connectionString: databaseUrl }
  const database = add('database', await startPostgres({ dataDirectory: join(directory, 'postgres') }))
  await migrateAll(database.connectionString)
  return database
}

async function startChain(options: SandboxOptions, secrets: SandboxSecrets, add: AddPart) {
  const chainDirectory = join(options.directory, 'chain')
  const chain = add(
    'chain',
    await startDevnet({
      stateFile: join(chainDirectory, 'state.json'),
      ...(options.blockTimeSeconds === undefined ? {} : { blockTimeSeconds: options.blockTimeSeconds }),
    }),
  )
  await fundSandboxAccounts(chain.rpcUrl, secrets.accounts)
  for (const { address } of settlementAccounts(secrets, options.settlementKeys ?? 1))
    await fundSettlementAccount(chain.rpcUrl, address)
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
const STOP_ORDER: readonly RegExp[] = [/^api/, /^worker/, /./]

async function stopInOrder(parts: Map<PartName, Part>): Promise<void> {
  for (const pattern of STOP_ORDER) {
    const names = [...parts.keys()].filter((name) => pattern.test(name))
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
