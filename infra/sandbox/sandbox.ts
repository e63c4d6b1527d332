import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { migrateAll } from '../commands/migrate/main.ts'
import { deploySettlementContract } from './chain/contracts/deploy-settlement-contract.ts'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID, startDevnet } from './chain/devnet.ts'
import { fundSandboxAccounts, fundSettlementAccount } from './chain/fund-devnet.ts'
import { importConfiguration, sandboxDeployments, UPSTREAM_KEY } from './deployments.ts'
import { startPostgres } from './postgres/embedded-postgres.ts'
import { grantToService, serviceUrlOf } from './postgres/service-connection.ts'
import type { ProcessExit } from './processes/guarded-process.ts'
import { planProcesses } from './processes/process-plan.ts'
import { startService } from './processes/service-processes.ts'
import { replaceFile } from './replace-file.ts'
import type { SandboxOptions, ServiceName } from './sandbox-options.ts'
import { discardState, readOrCreateSecrets, type SandboxSecrets, settlementAccounts } from './state-directory.ts'

/** The content of `sandbox.json`. Other programs read it: fields may be added, but not renamed. */
export interface SandboxInfo {
  /** The base URL of the first API. */
  baseUrl: string
  /** The base URLs of all APIs. */
  baseUrls: string[]
  rpcUrl: string
  payer: { address: string; privateKey: `0x${string}` }
  payTo: `0x${string}`
  /** Addresses of the accounts that send settlements. */
  settlementAddresses: string[]
  /** The contract through which they settle, which payers sign for; missing where each settles by itself. */
  settlementContract?: `0x${string}`
  usdc: string
  network: string
  /** The owner's, for programs that look into the ledger or change it. The services have a role of their own. */
  databaseUrl: string
  upstreamUrl: string
  /** The operators' console, where it runs. */
  operator?: { url: string; user: string; password: string }
  pids: {
    api: number
    worker: number
    chain: number
    operator?: number
    [further: `${'api' | 'worker'}-${number}`]: number
  }
}

type PartName = 'database' | 'chain' | 'upstream' | ServiceName

interface Part {
  pid: number
  stop(): Promise<void>
  exited: Promise<ProcessExit>
}

/** A running sandbox. The caller decides how to react to the crash of a part; `npm start` stops everything. */
export type Sandbox = Awaited<ReturnType<typeof startSandbox>>

/** Starts everything that farebox needs, each part as a real process on loopback. Stops all parts when one fails to start. */
export async function startSandbox(options: SandboxOptions) {
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
    const { info, start } = await startParts(options, add)
    return {
      info,
      /** Resolves with the first part that ended unexpectedly. */
      crashed: crashed.promise,
      /**
       * Waits until an API, a worker or the database has ended, restarts it at the same address, and returns how it
       * ended.
       */
      restart: async (name: ServiceName | 'database') => {
        const exit = await parts.get(name)?.exited
        await start(name)
        return exit
      },
      pidOf: (name: PartName) => parts.get(name)?.pid ?? 0,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startParts(options: SandboxOptions, add: AddPart) {
  const { directory, settlementKeys = 1 } = options
  const step = reporter(options)
  if (options.fresh) await discardState(directory)
  await mkdir(directory, { recursive: true })
  const secrets = await readOrCreateSecrets(directory, settlementKeys)
  const steps = [
    step('database', 'PostgreSQL 18 with the ledger’s schema', () => startDatabase(options, add)),
    step('chain', `local chain ${DEVNET_CHAIN_ID} with USDC, Permit2 and the x402 proxy`, () =>
      startChain(options, secrets, add),
    ),
    step('upstream', 'vendors of text, images and speech', () => startUpstream(options, secrets, add)),
  ] as const
  // When one fails, the others are stopped, too: they must be there by then.
  await Promise.allSettled(steps)
  const [database, chain, upstream] = await Promise.all(steps)
  const { privateKey } = secrets.accounts.settlement
  const facilitatorUrl = await options.startFacilitator?.({ rpcUrl: chain.rpcUrl, privateKey })
  const serviceUrl = serviceUrlOf(database.connectionString)
  const real = {
    databaseUrl: serviceUrl,
    queueUrl: options.outerServices?.['QUEUE_URL'] ?? serviceUrl,
    rpcUrl: chain.rpcUrl,
    upstreamUrl: upstream.url,
  }
  const connections = (await options.connections?.(real)) ?? real
  const deploymentsFile = await writeDeployments(options, connections.upstreamUrl, serviceUrl)
  const { contract: settlementContract } = chain
  const context = { connections, deploymentsFile, secrets, facilitatorUrl, settlementContract }
  const plan = await planProcesses(options, context)
  const startProcess = async (name: ServiceName) => add(name, await plan.start(name))
  const started = await Promise.all(
    plan.names.map(async (name) => [name, await step(name, plan.describe(name), () => startProcess(name))] as const),
  )
  const pids = Object.fromEntries(started.map(([name, { pid }]) => [name, pid]))
  const info: SandboxInfo = {
    baseUrl: plan.baseUrls[0],
    baseUrls: plan.baseUrls,
    rpcUrl: chain.rpcUrl,
    payer: secrets.accounts.payer,
    payTo: secrets.accounts.recipient.address,
    settlementAddresses: settlementAccounts(secrets, settlementKeys).map(({ address }) => address),
    ...(settlementContract && { settlementContract }),
    usdc: DEVNET_ADDRESSES.usdc,
    network: `eip155:${DEVNET_CHAIN_ID}`,
    databaseUrl: database.connectionString,
    upstreamUrl: upstream.url,
    ...(plan.operator && { operator: plan.operator }),
    pids: { api: 0, worker: 0, ...pids, chain: chain.pid },
  }
  const publish = async () => {
    if (options.sandboxFile) await replaceFile(options.sandboxFile, `${JSON.stringify(info, null, 2)}\n`)
  }
  await publish()
  const start = async (name: ServiceName | 'database') => {
    if (name === 'database') {
      if (database.port === undefined) throw new Error('this sandbox uses the caller’s database')
      add(name, await startPostgres({ dataDirectory: join(directory, 'postgres'), port: database.port }))
      return
    }
    info.pids[name] = (await startProcess(name)).pid
    await publish()
  }
  return { info, start }
}

type AddPart = <P extends Part>(name: PartName, part: P) => P

async function startDatabase(
  { directory, databaseUrl }: SandboxOptions,
  add: AddPart,
): Promise<{ connectionString: string; port?: number }> {
  if (databaseUrl !== undefined) {
    await grantToService(databaseUrl)
    return { connectionString: databaseUrl }
  }
  const database = add('database', await startPostgres({ dataDirectory: join(directory, 'postgres') }))
  const { connectionString } = database
  try {
    await migrateAll(connectionString, { serviceUrl: serviceUrlOf(connectionString) })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the ledger in ${directory} cannot be used (${reason}); \`npm start -- --fresh\` begins anew`, {
      cause: error,
    })
  }
  return database
}

async function startChain(options: SandboxOptions, secrets: SandboxSecrets, add: AddPart) {
  const chainDirectory = join(options.directory, 'chain')
  const chain = add(
    'chain',
    await startDevnet({
      stateFile: join(chainDirectory, 'state.json'),
      blockTimeSeconds: options.blockTimeSeconds,
      firstBlock: options.firstBlock,
    }),
  )
  const keys = settlementAccounts(secrets, options.settlementKeys ?? 1).map(({ address }) => address)
  await fundSandboxAccounts(chain.rpcUrl, secrets.accounts)
  for (const address of keys) await fundSettlementAccount(chain.rpcUrl, address)
  const { settlementContract = options.startFacilitator === undefined } = options
  if (!settlementContract) return { ...chain, contract: undefined }
  // The recipient of the revenue owns it: neither key is on a machine of the service.
  const contract = await deploySettlementContract(chain.rpcUrl, { owner: secrets.accounts.recipient.address, keys })
  return { ...chain, contract }
}

async function startUpstream(options: SandboxOptions, { upstreamApiKey }: SandboxSecrets, add: AddPart) {
  const upstream = add(
    'upstream',
    await startService({
      name: 'upstream',
      entry: options.upstreamEntry ?? 'infra/sandbox/upstream/main.ts',
      logsDirectory: join(options.directory, 'logs'),
      isReady: (line) => line.startsWith('{"listening":'),
      environment: {
        UPSTREAM_DELAY_MS: String(options.upstreamDelayMs ?? 0),
        UPSTREAM_API_KEY: upstreamApiKey,
        UPSTREAM_CALL_LOG: join(options.directory, 'upstream-calls.jsonl'),
        ...(options.engines?.voice === 'flite' && { UPSTREAM_VOICE: 'flite' }),
        ...(options.engines?.hearing === 'pocketsphinx' && { UPSTREAM_EAR: 'pocketsphinx' }),
      },
    }),
  )
  const { listening } = JSON.parse(upstream.readyLine) as { listening: number }
  return { ...upstream, url: `http://127.0.0.1:${listening}` }
}

/**
 * Writes the deployments file and publishes it: the simulated vendors serve the models of the catalog in several wire
 * formats, and engines of the caller what they are named for.
 */
async function writeDeployments(
  { directory, deployments, engines }: SandboxOptions,
  upstreamUrl: string,
  databaseUrl: string,
): Promise<string> {
  const path = join(directory, 'deployments.json')
  const all = sandboxDeployments({
    upstreamUrl,
    apiKeyEnv: UPSTREAM_KEY,
    models: publishedCatalog.models,
    voices: publishedCatalog.voices.map(({ id }) => id),
    engines,
  })
  const served = deployments ? deployments(all) : all
  await replaceFile(path, JSON.stringify(served, null, 2))
  await importConfiguration(databaseUrl, served, engines)
  return path
}

/** Parts stop before the parts that they depend on. */
const STOP_ORDER: readonly RegExp[] = [/^(api|operator)/, /^worker/, /./]

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
