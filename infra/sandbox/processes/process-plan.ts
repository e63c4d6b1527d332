import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { UPSTREAM_KEY } from '../deployments.ts'
import { replaceFile } from '../replace-file.ts'
import type { Connections, SandboxOptions, ServiceName } from '../sandbox-options.ts'
import { PORTS_FILE, type SandboxSecrets, settlementAccounts } from '../state-directory.ts'
import { preferPort } from './free-port.ts'
import { type ServiceProcess, startService } from './service-processes.ts'

/** The sandbox has one receipt secret and never rotates it. */
const RECEIPT_SECRET_ID = 'k1'

interface PlanContext {
  readonly connections: Connections
  readonly deploymentsFile: string
  readonly secrets: SandboxSecrets
  /** The URL of a remote facilitator, which settles in place of the sandbox's keys. */
  readonly facilitatorUrl: string | undefined
  /** The contract through which these settle. */
  readonly settlementContract: `0x${string}` | undefined
}

/**
 * Determines names, ports and settings of all APIs, workers and the console before the first one starts. Each can be
 * started repeatedly at the same address.
 */
export async function planProcesses(options: SandboxOptions, context: PlanContext) {
  const { apis = 1, workers = 1 } = options
  const chosen = await choosePorts(options.directory, apis + (options.operator ? 1 : 0))
  const [ports, [operatorPort]] = [chosen.slice(0, apis), chosen.slice(apis)]
  const [firstUrl, ...furtherUrls] = ports.map((port) => `http://127.0.0.1:${port}`)
  if (firstUrl === undefined || workers < 1) throw new Error('a sandbox has at least one API and one worker')
  const baseUrls: [string, ...string[]] = [firstUrl, ...furtherUrls]
  const apiProcesses = ports.map((port, index) => [nameOf('api', index), apiProcess(options, context, port)] as const)
  const workerProcesses = Array.from({ length: workers }, (_, index) => nameOf('worker', index)).map(
    (name) => [name, workerProcess(options, context)] as const,
  )
  const operatorProcesses =
    operatorPort === undefined ? [] : [['operator', operatorProcess(options, context, operatorPort)] as const]
  const processes = new Map<ServiceName, PlannedProcess>([...apiProcesses, ...workerProcesses, ...operatorProcesses])
  const find = (name: ServiceName) => {
    const found = processes.get(name)
    if (!found) throw new Error(`this sandbox has no ${name}`)
    return found
  }
  return {
    names: [...processes.keys()],
    /** In the order of the APIs' names. */
    baseUrls,
    /** Where the console runs, and its first account; `null` without one. */
    operator:
      operatorPort === undefined
        ? null
        : { url: consoleUrl(operatorPort), user: 'operator', password: context.secrets.operatorPassword },
    describe: (name: ServiceName) => find(name).description,
    start: (name: ServiceName): Promise<ServiceProcess> => {
      const { entry, isReady, environment } = find(name)
      const common = commonEnvironment(options, context, firstUrl)
      const all = { ...common, ...environment, ...options.environmentOf?.(name) }
      return startService({
        name,
        entry,
        root: options.rootOf?.(name),
        launcher: options.launcherOf?.(name),
        logsDirectory: join(options.directory, 'logs'),
        isReady,
        environment: withoutUnusedKeys(all),
      })
    },
  }
}

/**
 * Returns the ports of the last start while they are free: payments that were signed then, and media URLs in kept
 * results, name them.
 */
async function choosePorts(directory: string, count: number): Promise<readonly number[]> {
  const path = join(directory, PORTS_FILE)
  const text = await readFile(path, 'utf8').catch(() => '[]')
  const last = z.array(z.number()).catch([]).parse(JSON.parse(text))
  // Concurrently, so that no port is found twice.
  const ports = await Promise.all(Array.from({ length: count }, (_, index) => preferPort(last[index])))
  await replaceFile(path, JSON.stringify(ports))
  return ports
}

/** Removes the settlement keys from a worker that does not settle. */
function withoutUnusedKeys(environment: Record<string, string>): Record<string, string> {
  const { SETTLEMENT_PRIVATE_KEYS: _, ...others } = environment
  const { WORKER_QUEUES: queues } = others
  return queues === undefined || queues.includes('settlement') ? environment : others
}

function nameOf(kind: 'api' | 'worker', index: number): ServiceName {
  return index === 0 ? kind : `${kind}-${index + 1}`
}

function commonEnvironment(
  { directory, outerServices, blockTimeSeconds }: SandboxOptions,
  { connections, deploymentsFile }: PlanContext,
  publicBaseUrl: string,
): Record<string, string> {
  const { databaseUrl, queueUrl, rpcUrl } = connections
  return {
    DATABASE_URL: databaseUrl,
    ...(outerServices?.['S3_BUCKET'] ? {} : { OBJECT_STORE_DIRECTORY: join(directory, 'uploads') }),
    ...outerServices,
    // Last, because a proxy may replace the caller's queue.
    ...(queueUrl === databaseUrl ? {} : { QUEUE_URL: queueUrl }),
    RPC_URL: rpcUrl,
    // Without an interval a block comes only with a transaction, and may be of any age.
    MAXIMUM_HEAD_AGE_SECONDS: String(blockTimeSeconds === undefined ? 0 : Math.max(20, 10 * blockTimeSeconds)),
    PUBLIC_BASE_URL: publicBaseUrl,
    DEPLOYMENTS_FILE: deploymentsFile,
  }
}

interface PlannedProcess {
  readonly entry: string
  readonly description: string
  readonly isReady: (line: string) => boolean
  readonly environment: Record<string, string>
}

function apiProcess(
  { apiEntry = 'api/main.ts', apiEnvironment, settlementKeys = 1 }: SandboxOptions,
  { secrets, facilitatorUrl, settlementContract }: PlanContext,
  port: number,
): PlannedProcess {
  return {
    entry: apiEntry,
    description: `http://127.0.0.1:${port}`,
    isReady: (line) => line.includes('listening on'),
    environment: {
      PORT: String(port),
      CONTACT_EMAIL: 'sandbox@farebox.example',
      // There is no load balancer to notify, and the user waits after Ctrl-C.
      DRAIN_NOTICE_SECONDS: '0',
      DRAIN_SECONDS: '3',
      PAY_TO: secrets.accounts.recipient.address,
      ...(facilitatorUrl === undefined
        ? { FACILITATOR_ADDRESSES: addressesOf(secrets, settlementKeys) }
        : { FACILITATOR_URL: facilitatorUrl }),
      ...(settlementContract && { SETTLEMENT_CONTRACT: settlementContract }),
      CHALLENGE_SECRET: secrets.challengeSecret,
      RECEIPT_SECRETS: `${RECEIPT_SECRET_ID}:${secrets.receiptSecret}`,
      RECEIPT_SIGNING_KEY: `k1:${secrets.receiptSigningSeed}`,
      ...apiEnvironment,
    },
  }
}

function workerProcess(
  { workerEntry = 'workers/main.ts', workerEnvironment, settlementKeys = 1 }: SandboxOptions,
  { secrets, facilitatorUrl, settlementContract }: PlanContext,
): PlannedProcess {
  const facilitators = settlementAccounts(secrets, settlementKeys)
  return {
    entry: workerEntry,
    description: 'takes jobs, calls the vendors, settles',
    isReady: (line) => line.includes('taking jobs'),
    environment: {
      RECEIPT_SECRET_ID,
      // The chain mines immediately, so a transaction that waits longer is stuck.
      FEE_BUMP_AFTER_SECONDS: '3',
      ...(facilitatorUrl === undefined
        ? { SETTLEMENT_PRIVATE_KEYS: facilitators.map(({ privateKey }) => privateKey).join(',') }
        : { FACILITATOR_URL: facilitatorUrl }),
      ...(settlementContract && { SETTLEMENT_CONTRACT: settlementContract }),
      [UPSTREAM_KEY]: secrets.upstreamApiKey,
      ...workerEnvironment,
    },
  }
}

function addressesOf(secrets: SandboxSecrets, settlementKeys: number): string {
  return settlementAccounts(secrets, settlementKeys)
    .map(({ address }) => address)
    .join(',')
}

function consoleUrl(port: number): string {
  return `http://127.0.0.1:${port}/operator`
}

function operatorProcess(
  { operatorEntry = 'operator/main.ts', settlementKeys = 1 }: SandboxOptions,
  { secrets, facilitatorUrl }: PlanContext,
  port: number,
): PlannedProcess {
  return {
    entry: operatorEntry,
    description: consoleUrl(port),
    isReady: (line) => line.includes('listening on'),
    environment: {
      OPERATOR_PORT: String(port),
      OPERATOR_INITIAL_PASSWORD: secrets.operatorPassword,
      ...(facilitatorUrl === undefined ? { FACILITATOR_ADDRESSES: addressesOf(secrets, settlementKeys) } : {}),
    },
  }
}
