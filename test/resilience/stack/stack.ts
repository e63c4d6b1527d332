import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { Connections, SandboxOptions, ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { type Sandbox, startSandbox } from '../../../infra/sandbox/sandbox.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import type { TestRedis } from '../../support/processes/redis-server.ts'
import { WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { createPayingCaller, type PayingCaller } from '../calls/paying-caller.ts'
import { countBy } from '../checker/check-charges.ts'
import type { LedgerSources } from '../checker/collect.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import { objectsInBucket, objectsInFolder } from '../checker/read-objects.ts'
import { createPointControl, type PointControl } from '../processes/reach-point.ts'
import { type OuterServiceKind, startCampaignServices } from './outer-services.ts'
import { untilNoneLeft } from './until-reached.ts'

export interface CampaignStackOptions {
  /** Number of processes of each kind; default 2. */
  readonly apis?: number
  readonly workers?: number
  readonly settlementKeys?: number
  /** Whether payers sign for a settlement contract, so that several settle in one transaction; default true. */
  readonly settlementContract?: boolean
  /** Seconds between blocks; by default each transaction is mined at once. */
  readonly blockTimeSeconds?: number
  /** Recipients and settlement keys that come into use while calls go on. */
  readonly furtherRecipients?: readonly `0x${string}`[]
  readonly furtherSettlementAddresses?: readonly string[]
  /** Queue and object store to start for the campaign; default: none. */
  readonly on?: readonly OuterServiceKind[]
  /** Whether PostgreSQL, queue, RPC, upstream and bucket are behind fault proxies. */
  readonly proxied?: boolean
  /**
   * Number of payers who approved Permit2, and of those who sign a gas-sponsoring permit each time; default 8 and 4.
   */
  readonly approvedPayers?: number
  readonly sponsoredPayers?: number
  readonly upstreamDelayMs?: number
  readonly apiEnvironment?: Record<string, string>
  readonly workerEnvironment?: Record<string, string>
  /** Settings of the process with this name, which override all others. */
  readonly environmentOf?: (name: ServiceName) => Record<string, string>
  /** Changes the deployments file before it is written. */
  readonly deployments?: NonNullable<SandboxOptions['deployments']>
  /** A migrated database of the caller, in place of the sandbox's PostgreSQL. */
  readonly databaseUrl?: string
  /** The checkout that each process runs from, without fault points; default: this one, with them. */
  readonly rootOf?: (name: ServiceName) => string | undefined
  /** Where clients send their calls, such as a load balancer; default: directly to the APIs at their `baseUrls`. */
  readonly clientUrls?: (baseUrls: readonly string[]) => readonly string[]
  /** Proxies of the caller, and where each process runs: see `SandboxOptions`. Not together with `proxied`. */
  readonly connections?: NonNullable<SandboxOptions['connections']>
  readonly launcherOf?: NonNullable<SandboxOptions['launcherOf']>
  /** Clients send a request again, to the next API, when it has no answer after so long; default: as long as they have patience. */
  readonly answerWithinMs?: number
  /** Receives each call whose request had no answer. */
  readonly onLost?: (record: CallRecord) => void
  /** Returns numbers between 0 and 1; default `Math.random`. */
  readonly random?: () => number
}

type ProxiedTarget = 'database' | 'queue' | 'rpc' | 'upstream'

/** A whole farebox with several APIs and workers, the tools to break it, and clients that record what they see. */
export interface CampaignStack extends Sandbox {
  readonly directory: string
  readonly points: PointControl
  /** `null` unless the stack was started `proxied`. */
  readonly proxies: Readonly<Record<ProxiedTarget, TcpFaultProxy> & { objects?: TcpFaultProxy }> | null
  /** In front of the chain's node, for faults of single calls; `null` unless the stack was started `proxied`. */
  readonly node: RpcProxy | null
  /** The queue of a stack `on` Redis. */
  readonly redis: TestRedis | null
  readonly payers: { readonly approved: readonly Payer[]; readonly sponsored: readonly Payer[] }
  readonly caller: PayingCaller
  /** When the chain was reorganized, in Unix milliseconds; added by the fault that does it. */
  readonly reorganizedAt: number[]
  /** Creates another payer with 1,000 USDC. */
  addPayer(kind: 'approved' | 'sponsored'): Promise<Payer>
  setFaults(rules: readonly FaultRuleInput[]): Promise<void>
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /**
   * Waits until every job is finished, staged uploads are deleted, and every confirmed settlement is on chain; returns
   * the ids of stuck jobs.
   */
  settleDown(): Promise<readonly string[]>
  /** Keeps the logs and all other files after `stop`, to investigate a failure; returns the folder. */
  keepFiles(): string
  /** Returns where the checker reads the five ledgers, without any proxy. */
  ledgerSources(): Omit<LedgerSources, 'callsToReplay'>
}

const PAYER_FUNDS_ATOMIC = 1_000_000_000n
/** A job may have to be recovered several times, each time after many others. */
const CLIENT_PATIENCE_MS = 5 * PATIENCE_MS
/**
 * Short, since every job of a killed worker waits for it. A starved worker may lose its lease too, which costs an
 * uncharged failure that clients and checker treat as such.
 */
export const LEASE_SECONDS = 3

export async function startCampaignStack(options: CampaignStackOptions = {}): Promise<CampaignStack> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-campaign-'))
  const points = createPointControl(join(directory, 'points'))
  const { furtherRecipients = [] } = options
  const proxies: TcpFaultProxy[] = []
  let node: RpcProxy | null = null
  let keepsFiles = false
  const services = await startCampaignServices(options.on ?? [], options.proxied)
  let started: Sandbox | null = null
  const stopAround = async () => {
    await Promise.all(proxies.map((proxy) => proxy.stop()))
    await node?.stop()
    await services.stop()
  }
  try {
    const sandbox = await startSandbox({
      directory,
      apis: options.apis ?? 2,
      workers: options.workers ?? 2,
      settlementKeys: options.settlementKeys ?? 1,
      settlementContract: options.settlementContract ?? true,
      ...(options.blockTimeSeconds === undefined ? {} : { blockTimeSeconds: options.blockTimeSeconds }),
      upstreamDelayMs: options.upstreamDelayMs ?? 0,
      ...(options.rootOf
        ? { rootOf: options.rootOf }
        : { apiEntry: 'test/resilience/processes/api.ts', workerEntry: 'test/resilience/processes/worker.ts' }),
      ...(options.databaseUrl === undefined ? {} : { databaseUrl: options.databaseUrl }),
      ...(options.deployments === undefined ? {} : { deployments: options.deployments }),
      ...(options.launcherOf === undefined ? {} : { launcherOf: options.launcherOf }),
      ...(options.connections === undefined ? {} : { connections: options.connections }),
      // So short that clients also re-attach to a job that recovers slowly.
      apiEnvironment: {
        ...WITHOUT_BUDGETS,
        REQUESTS_PER_MINUTE: '1000000',
        HOLD_SECONDS: '10',
        ...options.apiEnvironment,
      },
      workerEnvironment: {
        ...WITHOUT_BUDGETS,
        LEASE_SECONDS: String(LEASE_SECONDS),
        FEE_BUMP_AFTER_SECONDS: '1',
        ...options.workerEnvironment,
      },
      outerServices: services.settings,
      environmentOf: (name) => ({
        FAULT_POINTS_DIRECTORY: join(directory, 'points'),
        ...options.environmentOf?.(name),
      }),
      ...(options.proxied === true
        ? {
            connections: async (real) => {
              node = await startRpcProxy(real.rpcUrl)
              return await startProxies({ ...real, rpcUrl: node.url }, proxies)
            },
          }
        : {}),
    })
    started = sandbox
    const [database, queue, rpc, upstream] = proxies
    const caller = createPayingCaller({
      baseUrls: options.clientUrls?.(sandbox.info.baseUrls) ?? sandbox.info.baseUrls,
      answerWithinMs: options.answerWithinMs,
      onLost: options.onLost,
      rpcUrl: sandbox.info.rpcUrl,
      network: sandbox.info.network,
      patienceMs: CLIENT_PATIENCE_MS,
      random: options.random ?? Math.random,
    })
    const addPayer: CampaignStack['addPayer'] = (kind) =>
      createPayer(sandbox.info.rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: kind === 'approved' })
    const approved = await addPayers(options.approvedPayers ?? 8, () => addPayer('approved'))
    const sponsored = await addPayers(options.sponsoredPayers ?? 4, () => addPayer('sponsored'))
    const pool = new pg.Pool({ connectionString: sandbox.info.databaseUrl, max: 2 })
    // A restart of the database closes idle connections; the next query opens another.
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
      node,
      redis: services.redis,
      payers: { approved, sponsored },
      caller,
      addPayer,
      setFaults: (rules) => setFaults(sandbox.info.upstreamUrl, rules),
      sql,
      settleDown: () => settleDown(sql, sandbox.info.rpcUrl, [sandbox.info.payTo, ...furtherRecipients]),
      reorganizedAt,
      ledgerSources: () => ({
        reorganizedAt,
        rpcUrl: sandbox.info.rpcUrl,
        payTo: sandbox.info.payTo,
        furtherRecipients,
        settlementContract: sandbox.info.settlementContract,
        settlementAddresses: [...sandbox.info.settlementAddresses, ...(options.furtherSettlementAddresses ?? [])],
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
    await started?.stop()
    await stopAround()
    // A process that was killed while it started may still write; the error to report is the one above.
    await rm(directory, { recursive: true, force: true, maxRetries: 10 }).catch(() => undefined)
    throw error
  }
}

/** Starts the fault proxies. */
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

async function addPayers(count: number, add: () => Promise<Payer>): Promise<readonly Payer[]> {
  const payers: Payer[] = []
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

async function settleDown(
  sql: CampaignStack['sql'],
  rpcUrl: string,
  recipients: readonly `0x${string}`[],
): Promise<readonly string[]> {
  const unfinished = await untilNoneLeft(async () => {
    const inLedger = await sql<{ id: string; kind: string; state: string }>(
      `SELECT id, 'job' AS kind, state FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
       UNION ALL SELECT id, 'upload', '' FROM staged_uploads WHERE erased_at IS NOT NULL AND object_deleted_at IS NULL
       ORDER BY id`,
    )
    return inLedger.length > 0 ? inLedger : await missingOnChain(sql, rpcUrl, recipients)
  })
  return unfinished.filter(({ kind }) => kind === 'job').map(({ id }) => id)
}

/**
 * Returns accounts with nonces that are not mined yet, and confirmed settlements that a reorganization has removed for
 * now.
 */
async function missingOnChain(sql: CampaignStack['sql'], rpcUrl: string, recipients: readonly `0x${string}`[]) {
  const accounts = await sql<{ id: string; next: string }>(
    'SELECT facilitator AS id, next_account_nonce AS next FROM settlement_accounts',
  )
  const waiting = await Promise.all(
    accounts.map(async ({ id, next }) => {
      const mined = BigInt(await callRpc<string>(rpcUrl, 'eth_getTransactionCount', [id, 'latest']))
      return mined < BigInt(next) ? [{ id, kind: 'account', state: `${mined} of ${next}` }] : []
    }),
  )
  // Of two payments of one batch, one may be missing.
  const settlements = await sql<{ id: string; payer: string; amount: string; others: string }>(
    `SELECT transaction_hash AS id, payer, charge_amount::text AS amount, (count(*) OVER
       (PARTITION BY transaction_hash, payer, charge_amount))::text AS others
     FROM settlements WHERE state = 'confirmed'`,
  )
  const reader = createChainReader(rpcUrl)
  const transfers = (await Promise.all(recipients.map((recipient) => reader.transfersTo(recipient)))).flat()
  const present = countBy(
    transfers.map(({ transactionHash, from, valueAtomic }) =>
      `${transactionHash} ${from} ${valueAtomic}`.toLowerCase(),
    ),
  )
  return [
    ...waiting.flat(),
    ...settlements
      .filter(
        ({ id, payer, amount, others }) =>
          (present.get(`${id} ${payer} ${amount}`.toLowerCase()) ?? 0) < Number(others),
      )
      .map(({ id }) => ({ id, kind: 'settlement', state: '' })),
  ]
}

/** Returns bytes that occur only in this audio: the generator's seed, after the side information of the first frame. */
export function canaryOf(audio: Uint8Array): Buffer {
  return Buffer.from(audio.subarray(24, 48))
}
