import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { OuterServices } from '../../../infra/sandbox/outer-services.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { startService } from '../../../infra/sandbox/processes/service-processes.ts'
import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { createChainReader, startTestDevnet } from '../../support/chain/devnet.ts'
import { DURABLE_REDIS, startTestRedis } from '../../support/processes/redis-server.ts'
import { startFarebox } from './farebox.ts'
import { requireSdkPackages } from './sdk-packages.ts'

/** One of the compared services, each with a fresh chain and a separate upstream. */
export interface Contestant {
  readonly name: ContestantName
  readonly baseUrl: string
  readonly rpcUrl: string
  /** Process ids by kind. */
  readonly pids: Readonly<Record<string, number>>
  /** Lets PostgreSQL look at its tables, as it does by itself within a minute: before, plans are those for empty ones. */
  analyzeTables(): Promise<void>
  /** Returns the number of transfers to the recipient. */
  countTransfers(): Promise<number>
  /**
   * Returns the stock integration's timings since the previous call; empty for farebox, whose stages `phases` measures.
   */
  readTimings(): Promise<Readonly<Record<string, number>>>
  stop(): Promise<void>
}

/**
 * farebox with its queue in PostgreSQL (as in the sandbox) and on Redis (as in production), and the SDK's middleware.
 */
export const CONTESTANT_NAMES = ['farebox', 'farebox, Redis', 'x402-express'] as const
export type ContestantName = (typeof CONTESTANT_NAMES)[number]
export const isOurs = (name: ContestantName) => name !== 'x402-express'

export interface ContestantOptions {
  readonly upstreamDelayMs: number
  /** Inserts proxies between the services and their dependencies. */
  readonly connections?: NonNullable<SandboxOptions['connections']>
  /** Our ledger's server, migrated; by default one of the contestant's own. */
  readonly postgres?: { readonly url: string; readonly pid: number }
}

export function startContestant(name: ContestantName, options: ContestantOptions): Promise<Contestant> {
  switch (name) {
    case 'farebox':
      return startOurs(name, options)
    case 'farebox, Redis':
      return startOursOnRedis(name, options)
    case 'x402-express':
      return startTheirs(options)
  }
}

async function startOursOnRedis(name: ContestantName, options: ContestantOptions): Promise<Contestant> {
  const redis = await startTestRedis(DURABLE_REDIS)
  try {
    const ours = await startOurs(name, options, { QUEUE_URL: redis.url, QUEUE_PREFIX: '{farebox-bench}' })
    const stop = async () => {
      await ours.stop()
      await redis.stop()
    }
    return { ...ours, pids: { ...ours.pids, redis: redis.pid }, stop }
  } catch (error) {
    await redis.stop()
    throw error
  }
}

async function startOurs(
  name: ContestantName,
  { upstreamDelayMs, connections, postgres }: ContestantOptions,
  outerServices?: OuterServices,
): Promise<Contestant> {
  const sandbox = await startFarebox({
    upstreamDelayMs,
    ...(connections && { connections }),
    ...(outerServices && { outerServices }),
    ...(postgres && { databaseUrl: postgres.url }),
  })
  const { info } = sandbox
  return {
    name,
    baseUrl: info.baseUrl,
    rpcUrl: info.rpcUrl,
    pids: {
      api: sandbox.pidOf('api'),
      worker: sandbox.pidOf('worker'),
      postgres: postgres?.pid ?? sandbox.pidOf('database'),
      chain: sandbox.pidOf('chain'),
      upstream: sandbox.pidOf('upstream'),
    },
    analyzeTables: () =>
      withConnection({ connectionString: info.databaseUrl, applicationName: 'farebox bench' }, async (pool) => {
        await pool.query({ name: 'analyze_tables', text: 'ANALYZE' })
      }),
    countTransfers: async () => (await sandbox.chain.transfersTo(info.payTo)).length,
    readTimings: async () => ({}),
    stop: () => sandbox.stop(),
  }
}

const UPSTREAM_API_KEY = 'bench'

async function startTheirs({ upstreamDelayMs, connections }: ContestantOptions): Promise<Contestant> {
  requireSdkPackages()
  const logsDirectory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const stops: (() => Promise<void>)[] = [() => rm(logsDirectory, { recursive: true, force: true })]
  const stop = async () => {
    for (const end of stops.toReversed()) await end()
  }
  try {
    const devnet = await startTestDevnet()
    stops.push(() => devnet.stop())
    const upstream = await startService({
      name: 'upstream',
      entry: 'infra/sandbox/upstream/main.ts',
      logsDirectory,
      isReady: (line) => line.startsWith('{"listening":'),
      environment: {
        UPSTREAM_DELAY_MS: String(upstreamDelayMs),
        UPSTREAM_API_KEY,
        UPSTREAM_CALL_LOG: join(logsDirectory, 'upstream-calls.jsonl'),
      },
    })
    stops.push(() => upstream.stop())
    const { listening } = JSON.parse(upstream.readyLine) as { listening: number }
    const real = { rpcUrl: devnet.rpcUrl, upstreamUrl: `http://127.0.0.1:${listening}`, databaseUrl: '', queueUrl: '' }
    const { rpcUrl, upstreamUrl } = (await connections?.(real)) ?? real
    const port = await findFreePort()
    const express = await startService({
      name: 'x402-express',
      entry: 'test/sdks/bench/x402-express.ts',
      logsDirectory,
      isReady: (line) => line === 'listening',
      environment: {
        NODE_ENV: 'production',
        // Node's own limits of the heap; ours are set smaller by the image.
        NODE_OPTIONS: '',
        PORT: String(port),
        RPC_URL: rpcUrl,
        SETTLEMENT_PRIVATE_KEY: devnet.accounts.settlement.privateKey,
        PAY_TO: devnet.accounts.recipient.address,
        USDC: DEVNET_ADDRESSES.usdc,
        NETWORK: 'eip155:8453',
        UPSTREAM_URL: upstreamUrl,
        FFMPEG_PATH:
          (await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })) ?? '',
        UPSTREAM_API_KEY,
      },
    })
    stops.push(() => express.stop())
    const baseUrl = `http://127.0.0.1:${port}`
    const chain = createChainReader(devnet.rpcUrl)
    return {
      name: 'x402-express',
      baseUrl,
      rpcUrl: devnet.rpcUrl,
      pids: { api: express.pid, chain: devnet.pid, upstream: upstream.pid },
      analyzeTables: async () => undefined,
      countTransfers: async () => (await chain.transfersTo(devnet.accounts.recipient.address)).length,
      readTimings: async () => (await (await fetch(`${baseUrl}/_timings`)).json()) as Record<string, number>,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
