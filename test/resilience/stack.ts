import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import type { ServiceName } from '../../infra/sandbox/process-plan.ts'
import { type Connections, type Sandbox, type SandboxInfo, startSandbox } from '../../infra/sandbox/sandbox.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { createChainReader, type TestDevnet } from '../support/chain/devnet.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../support/http/tcp-fault-proxy.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ChainPayer, createChainPayer } from '../support/payer/chain-payer.ts'
import type { TestRedis } from '../support/processes/redis-server.ts'
import type { LedgerSources } from './checker/collect.ts'
import { objectsInBucket, objectsInFolder } from './checker/read-objects.ts'
import { type OuterServiceKind, startCampaignServices } from './outer-services.ts'
import { createPayingCaller, type PayingCaller } from './paying-caller.ts'
import { createPointControl, type PointControl } from './processes/reach-point.ts'
import { untilNoneLeft } from './until-reached.ts'

export interface CampaignStackOptions {
  /** How many processes of each kind; two when left out. */
  readonly apis?: number
  readonly workers?: number
  readonly settlementKeys?: number
  /** The queue and the object store that are started for the campaign; none of them when left out. */
  readonly on?: readonly OuterServiceKind[]
  /** Puts a fault proxy before PostgreSQL, the queue, the RPC, the upstream and the bucket. */
  readonly proxied?: boolean
  /** Payers that approved Permit2 once, and payers who sign a gas-sponsored permit each time; 8 and 4 when left out. */
  readonly approvedPayers?: number
  readonly sponsoredPayers?: number
  readonly upstreamDelayMs?: number
  readonly apiEnvironment?: Record<string, string>
  readonly workerEnvironment?: Record<string, string>
  /** More settings of the one process with this name, over all others. */
  readonly environmentOf?: (name: ServiceName) => Record<string, string>
  /** Where clients send their calls, such as a load balancer; straight to the APIs when left out. */
  readonly clientUrls?: readonly string[]
  /** Between 0 and 1; `Math.random` when left out. */
  readonly random?: () => number
}

type ProxiedTarget = 'database' | 'queue' | 'rpc' | 'upstream'

/** A whole farebox with several APIs and workers, the tools to break it, and clients who write down what they see. */
export interface CampaignStack extends Sandbox {
  readonly directory: string
  readonly points: PointControl
  /** `null` unless the stack was started `proxied`. */
  readonly proxies: Readonly<Record<ProxiedTarget, TcpFaultProxy> & { objects?: TcpFaultProxy }> | null
  /** Where the queue lives, on a stack `on` Redis. */
  readonly redis: TestRedis | null
  readonly payers: { readonly approved: readonly ChainPayer[]; readonly sponsored: readonly ChainPayer[] }
  readonly caller: PayingCaller
  /** When the chain was reorganised, in Unix milliseconds; whoever does it adds the time. */
  readonly reorganizedAt: number[]
  /** Creates one more payer with 1,000 USDC. */
  addPayer(kind: 'approved' | 'sponsored'): Promise<ChainPayer>
  setFaults(rules: readonly FaultRuleInput[]): Promise<void>
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /**
   * Waits until every job is finished, staged uploads are reaped, and the chain holds every settlement that counts as collected;
   * returns the ids of jobs that got stuck.
   */
  settleDown(): Promise<readonly string[]>
  /** Lets the logs and everything else outlive `stop`, for whoever looks into a failure; gives the folder. */
  keepFiles(): string
  /** Where the checker finds the five ledgers, past all proxies. */
  ledgerSources(): Omit<LedgerSources, 'callsToReplay'>
}

const PAYER_FUNDS_ATOMIC = 1_000_000_000n
/** A job may be recovered several times, each time behind many others. */
const CLIENT_PATIENCE_MS = 5 * PATIENCE_MS
/**
 * Short, since every job of a killed worker waits for it. A worker that is starved and alive may lose it too: that costs an
 * uncharged failure, which clients and the checker take as one.
 */
export const LEASE_SECONDS = 3

export async function startCampaignStack(options: CampaignStackOptions = {}): Promise<CampaignStack> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-campaign-'))
  const points = createPointControl(join(directory, 'points'))
  const proxies: TcpFaultProxy[] = []
  let keepsFiles = false
  const services = await startCampaignServices(options.on ?? [], options.proxied)
  const stopAround = async () => {
    await Promise.all(proxies.map((proxy) => proxy.stop()))
    await services.stop()
  }
  try {
    const sandbox = await startSandbox({
      directory,
      apis: options.apis ?? 2,
      workers: options.workers ?? 2,
      settlementKeys: options.settlementKeys ?? 1,
      upstreamDelayMs: options.upstreamDelayMs ?? 0,
      apiEntry: 'test/resilience/processes/api.ts',
      workerEntry: 'test/resilience/processes/worker.ts',
      // Held for so short a time that clients whose job recovers slowly also attach to it again.
      apiEnvironment: { REQUESTS_PER_MINUTE: '1000000', HOLD_SECONDS: '10', ...options.apiEnvironment },
      workerEnvironment: {
        LEASE_SECONDS: String(LEASE_SECONDS),
        SWEEP_SECONDS: '0.2',
        FEE_BUMP_AFTER_SECONDS: '1',
        ...options.workerEnvironment,
      },
      outerServices: services.settings,
      environmentOf: (name) => ({
        FAULT_POINTS_DIRECTORY: join(directory, 'points'),
        ...options.environmentOf?.(name),
      }),
      ...(options.proxied === true ? { connections: (real) => startProxies(real, proxies) } : {}),
    })
    const [database, queue, rpc, upstream] = proxies
    const caller = createPayingCaller({
      baseUrls: options.clientUrls ?? sandbox.info.baseUrls,
      rpcUrl: sandbox.info.rpcUrl,
      network: sandbox.info.network,
      patienceMs: CLIENT_PATIENCE_MS,
      random: options.random ?? Math.random,
    })
    const addPayer = await createPayerMint(sandbox.info)
    const approved = await addPayers(options.approvedPayers ?? 8, () => addPayer('approved'))
    const sponsored = await addPayers(options.sponsoredPayers ?? 4, () => addPayer('sponsored'))
    const pool = new pg.Pool({ connectionString: sandbox.info.databaseUrl, max: 2 })
    // A restart of the database ends idle connections; the next query opens another.
    pool.on('error', () => undefined)
    const sql: CampaignStack['sql'] = async <Row extends pg.QueryResultRow>(
      statement: string,
      parameters: readonly unknown[] = [],
    ) => (await pool.query<Row>(statement, [...parameters])).rows
    const reorganizedAt: number[] = []
    return {
      ...sandbox,
      directory,
      points,
      proxies:
        database && queue && rpc && upstream
          ? { database, queue, rpc, upstream, ...(services.objectsProxy ? { objects: services.objectsProxy } : {}) }
          : null,
      redis: services.redis,
      payers: { approved, sponsored },
      caller,
      addPayer,
      setFaults: (rules) => setFaults(sandbox.info.upstreamUrl, rules),
      sql,
      settleDown: () => settleDown(sql, sandbox.info),
      reorganizedAt,
      ledgerSources: () => ({
        reorganizedAt,
        rpcUrl: sandbox.info.rpcUrl,
        payTo: sandbox.info.payTo,
        settlementAddresses: sandbox.info.settlementAddresses,
        databaseUrl: sandbox.info.databaseUrl,
        upstreamCallLog: join(directory, 'upstream-calls.jsonl'),
        readObjects: services.s3 ? objectsInBucket(services.s3) : objectsInFolder(join(directory, 'uploads')),
        canaries: caller.audios.map(canaryOf),
        calls: caller.records,
        replay: (record) => caller.replay(record),
      }),
      stop: async () => {
        await pool.end()
        await sandbox.stop()
        await stopAround()
        if (!keepsFiles) await rm(directory, { recursive: true, force: true })
      },
      keepFiles: () => {
        keepsFiles = true
        return directory
      },
    }
  } catch (error) {
    await stopAround()
    await rm(directory, { recursive: true, force: true })
    throw error
  }
}

/** The proxies, in the order database, queue, RPC, upstream. */
async function startProxies(real: Connections, proxies: TcpFaultProxy[]): Promise<Connections> {
  const through = async (target: string) => {
    const url = new URL(target)
    const proxy = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) })
    proxies.push(proxy)
    url.port = String(proxy.port)
    return url.href.replace(/\/$/, '')
  }
  return {
    databaseUrl: await through(real.databaseUrl),
    queueUrl: await through(real.queueUrl),
    rpcUrl: await through(real.rpcUrl),
    upstreamUrl: await through(real.upstreamUrl),
  }
}

async function createPayerMint(info: SandboxInfo): Promise<CampaignStack['addPayer']> {
  const { rpcUrl } = info
  // Of a devnet, payers use only its address and its reads.
  const devnet = { ...createChainReader(rpcUrl), rpcUrl } as TestDevnet
  return async (kind) => {
    const payer = await createChainPayer(devnet, PAYER_FUNDS_ATOMIC)
    if (kind === 'approved') await payer.approve()
    return payer
  }
}

async function addPayers(count: number, add: () => Promise<ChainPayer>): Promise<readonly ChainPayer[]> {
  const payers: ChainPayer[] = []
  while (payers.length < count) payers.push(await add())
  return payers
}

async function setFaults(upstreamUrl: string, rules: readonly FaultRuleInput[]): Promise<void> {
  const answer = await fetch(`${upstreamUrl}/_simulator/faults`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(rules),
  })
  if (!answer.ok) throw new Error(`the simulator refused the faults: ${await answer.text()}`)
}

async function settleDown(sql: CampaignStack['sql'], info: SandboxInfo): Promise<readonly string[]> {
  const unfinished = await untilNoneLeft(async () => {
    const inLedger = await sql<{ id: string; kind: string; state: string }>(
      `SELECT id, 'job' AS kind, state FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
       UNION ALL SELECT id, 'upload', '' FROM staged_uploads WHERE erased_at IS NOT NULL AND object_deleted_at IS NULL
       ORDER BY id`,
    )
    return inLedger.length > 0 ? inLedger : await missingOnChain(sql, info)
  })
  return unfinished.filter(({ kind }) => kind === 'job').map(({ id }) => id)
}

/** Account nonces that nothing was mined for yet, and collected settlements that a reorganisation has taken back for now. */
async function missingOnChain(sql: CampaignStack['sql'], { rpcUrl, payTo }: SandboxInfo) {
  const accounts = await sql<{ id: string; next: string }>(
    'SELECT facilitator AS id, next_account_nonce AS next FROM settlement_accounts',
  )
  const waiting = await Promise.all(
    accounts.map(async ({ id, next }) => {
      const mined = BigInt(await callRpc<string>(rpcUrl, 'eth_getTransactionCount', [id, 'latest']))
      return mined < BigInt(next) ? [{ id, kind: 'account', state: `${mined} of ${next}` }] : []
    }),
  )
  const settlements = await sql<{ id: string }>(
    "SELECT transaction_hash AS id FROM settlements WHERE state = 'confirmed'",
  )
  const transfers = await createChainReader(rpcUrl).transfersTo(payTo as `0x${string}`)
  const present = new Set(transfers.map(({ transactionHash }) => transactionHash.toLowerCase()))
  return [
    ...waiting.flat(),
    ...settlements
      .filter(({ id }) => !present.has(id.toLowerCase()))
      .map(({ id }) => ({ id, kind: 'settlement', state: '' })),
  ]
}

/** A run of bytes that only this audio holds: the generator's seed, behind the side information of the first frame. */
export function canaryOf(audio: Uint8Array): Buffer {
  return Buffer.from(audio.subarray(24, 48))
}
