import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import type { Engines } from './engines.ts'
import type { OuterServices } from './outer-services.ts'

/** Names of processes: the first API and worker have no number, the second are `api-2` and `worker-2`. */
export type ServiceName = 'api' | 'worker' | 'operator' | `${'api' | 'worker'}-${number}`

/** Services that API and workers reach over the network. */
export interface Connections {
  readonly databaseUrl: string
  readonly queueUrl: string
  readonly rpcUrl: string
  readonly upstreamUrl: string
}

/** Options of one sandbox. */
export interface SandboxOptions {
  /** The directory that keeps state between starts. */
  directory: string
  /** The path of `sandbox.json`; not written by default. */
  sandboxFile?: string
  fresh?: boolean
  upstreamDelayMs?: number
  blockTimeSeconds?: number | undefined
  /** The number of the chain's first block; default 0. */
  firstBlock?: number
  /** The number of processes of each kind; default 1. */
  apis?: number
  workers?: number
  /** Whether the operators' console runs as well; default false. */
  operator?: boolean
  /** The number of accounts that send settlements; default 1. */
  settlementKeys?: number
  /**
   * Whether payers sign for a settlement contract that lists these accounts, so that several settle in one transaction;
   * default true, unless a facilitator settles. Without it they sign for an account, and each settles by itself.
   */
  settlementContract?: boolean
  /** Entry files, relative to the repository; by default `main.ts` of `api`, `workers`, `operator` and `upstream`. */
  apiEntry?: string
  workerEntry?: string
  operatorEntry?: string
  upstreamEntry?: string
  /** The checkout that a process runs from, asked at each start; default: this one. */
  rootOf?: (name: ServiceName) => string | undefined
  /** A command that runs a process elsewhere, such as in a network namespace: its words before the process's own. */
  launcherOf?: (name: ServiceName) => readonly string[]
  /** Inserts proxies: receives the real addresses and returns those that API and workers use. */
  connections?: (real: Connections) => Promise<Connections>
  /** A migrated database of the caller, in place of the sandbox's PostgreSQL. */
  databaseUrl?: string
  /** What does the work of the models; by default all is simulated. */
  engines?: Engines
  /** Changes the deployments file before it is written. */
  deployments?: (all: DeploymentsFileInput) => DeploymentsFileInput
  /** A queue and an object store of the caller, in place of the sandbox's. */
  outerServices?: OuterServices
  /** Additional settings of API and worker, which override the sandbox's. */
  apiEnvironment?: Record<string, string>
  workerEnvironment?: Record<string, string>
  /** Additional settings of one process, which override all others. */
  environmentOf?: (name: ServiceName) => Record<string, string>
  /** Starts a facilitator with the settlement key and returns its URL; by default the worker has the key. */
  startFacilitator?: (chain: { rpcUrl: string; privateKey: `0x${string}` }) => Promise<string>
  /** Called after each step of the start, with its duration. */
  onStep?: (name: string, detail: string, milliseconds: number) => void
}
