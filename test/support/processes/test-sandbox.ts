import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { type Sandbox, type SandboxInfo, startSandbox } from '../../../infra/sandbox/sandbox.ts'
import type { UpstreamCall } from '../../../infra/sandbox/upstream/call-log.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { createChainReader } from '../chain/devnet.ts'
import { PATIENT_SETTINGS } from '../patience.ts'
import { createPayer } from '../payer/payer.ts'
import type { SharedSandboxPlace } from './shared-services.ts'

/** 1,000 USDC, as the sandbox's own payer has. */
const PAYER_FUNDS_ATOMIC = 1_000_000_000n
const SAMPLE = fileURLToPath(new URL('../../../infra/sandbox/samples/last-tram.mp3', import.meta.url))

/** Campaigns provoke more uncharged work, and from more new payers, than any limit of a deployment would allow. */
export const WITHOUT_BUDGETS = {
  UNCHARGED_BUDGET_USDC: '1000000',
  NEW_PAYER_DAILY_LOSS_USDC: '1000000',
  NEW_PAYER_VERIFICATIONS_PER_MINUTE: '1000000',
  UNPAID_AUDIO_MINUTES_PER_MINUTE: '1000000',
}

/** A whole farebox of real processes, with what a test observes from outside. */
export interface SharedSandbox {
  readonly info: SandboxInfo
  /** The state: secrets, stored objects, and each process's output in `logs`. */
  readonly directory: string
  readonly chain: ReturnType<typeof createChainReader>
  readonly payer: PayingClient
  readonly sample: Buffer
  pidOf(part: 'api' | 'worker' | 'chain'): number
  /** Returns the upstream's calls since this file began, in order. */
  upstreamCalls(): Promise<readonly UpstreamCall[]>
  setFaults(rules: readonly FaultRuleInput[]): Promise<void>
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /** Returns how many rows were added to a table since this file began. */
  added(table: CountedTable): Promise<number>
  /** Returns the bound keys that are not `earlier`. Their number alone says little: expired ones are deleted meanwhile. */
  boundKeys(earlier?: readonly string[]): Promise<string[]>
  /** Sends a JSON request to a paid endpoint. */
  post(path: string, body: Record<string, unknown>, request?: Omit<TranscriptionCall, 'body'>): Promise<Response>
  /** Sends `POST /v1/audio/transcriptions` as JSON. */
  transcribe(request?: TranscriptionCall): Promise<Response>
  stop(): Promise<void>
}

/** A separate farebox, which the test may configure, restart and break. */
export type TestSandbox = SharedSandbox & Sandbox

export interface TranscriptionCall {
  idempotencyKey?: string
  body?: Record<string, unknown>
  headers?: Record<string, string>
  signal?: AbortSignal
}

const COUNTED_TABLES = ['authorizations', 'jobs', 'receipts'] as const
type CountedTable = (typeof COUNTED_TABLES)[number]

/**
 * Returns the sandbox that the calling file shares with the files before and after it, with a fresh payer. For tests
 * that neither configure nor break it: a separate sandbox costs seconds of processor time.
 */
export async function useSharedSandbox(): Promise<SharedSandbox> {
  const { askSharedServices } = await import('./ask-shared-services.ts')
  const worker = process.env['VITEST_POOL_ID']
  const { info, directory } = await askSharedServices<SharedSandboxPlace>(`/sandboxes/${worker}`)
  const { account, privateKey } = await createPayer(info.rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC })
  const sandbox = await observe({ ...info, payer: { address: account.address, privateKey } }, directory)
  return {
    ...sandbox,
    pidOf: (part) => info.pids[part],
    stop: async () => {
      await sandbox.setFaults([])
      await sandbox.stop()
    },
  }
}

/** Starts a sandbox with fresh state and a separate database on the run's PostgreSQL; `stop` removes both. */
export async function startTestSandbox(options: Partial<SandboxOptions> = {}): Promise<TestSandbox> {
  const { createTestDatabase } = await import('../ledger/test-database.ts')
  const database = await createTestDatabase()
  const sandbox = await startStandaloneSandbox({ databaseUrl: database.url, ...options })
  return {
    ...sandbox,
    stop: async () => {
      await sandbox.stop()
      await database.drop()
    },
  }
}

/**
 * Starts a sandbox with a separate PostgreSQL, for programs outside of a test run and tests that restart the database.
 */
export async function startStandaloneSandbox(options: Partial<SandboxOptions> = {}): Promise<TestSandbox> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  const sandbox = await startSandbox({
    directory,
    upstreamEntry: 'test/support/vendors/hearing-vendors.ts',
    ...options,
    apiEnvironment: { ...PATIENT_SETTINGS, ...options.apiEnvironment },
    workerEnvironment: { ...PATIENT_SETTINGS, ...options.workerEnvironment },
  })
  const observed = await observe(sandbox.info, directory)
  return {
    ...sandbox,
    ...observed,
    stop: async () => {
      await observed.stop()
      await sandbox.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Observes a running sandbox from outside; earlier events are ignored. */
async function observe(info: SandboxInfo, directory: string): Promise<Omit<SharedSandbox, 'pidOf'>> {
  const pool = new pg.Pool({ connectionString: info.databaseUrl, max: 2 })
  // A restart of the database closes idle connections; the next query opens another.
  pool.on('error', () => undefined)
  const sample = await readFile(SAMPLE)
  const chain = createChainReader(info.rpcUrl)
  const simulator = (path: string, init?: RequestInit) => fetch(`${info.upstreamUrl}/_simulator/${path}`, init)
  const readCalls = async () => ((await (await simulator('calls')).json()) as { calls: UpstreamCall[] }).calls
  const sql: SharedSandbox['sql'] = async <Row extends pg.QueryResultRow>(
    statement: string,
    parameters: readonly unknown[] = [],
  ) => (await pool.query<Row>(statement, [...parameters])).rows
  const countRows = async (table: CountedTable) => {
    const [row] = await sql<{ count: string }>(`SELECT count(*) FROM ${table}`)
    return Number(row?.count)
  }
  const post: SharedSandbox['post'] = (path, body, { idempotencyKey = randomUUID(), headers, signal } = {}) =>
    fetch(`${info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
      body: JSON.stringify(body),
      ...(signal ? { signal } : {}),
    })
  const earlierCalls = (await readCalls()).length
  const earlierTransfers = (await chain.transfersTo(info.payTo)).length
  const earlierRows = new Map(
    await Promise.all(COUNTED_TABLES.map(async (table) => [table, await countRows(table)] as const)),
  )
  return {
    info,
    directory,
    chain: {
      ...chain,
      transfersTo: async (account) => {
        const transfers = await chain.transfersTo(account)
        return account === info.payTo ? transfers.slice(earlierTransfers) : transfers
      },
    },
    payer: createPayingClient({ privateKey: info.payer.privateKey, rpcUrl: info.rpcUrl, network: info.network }),
    sample,
    upstreamCalls: async () => (await readCalls()).slice(earlierCalls),
    setFaults: async (rules) => {
      const answer = await simulator('faults', {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(rules),
      })
      if (!answer.ok) throw new Error(`the simulator refused the faults: ${await answer.text()}`)
    },
    sql,
    added: async (table) => (await countRows(table)) - (earlierRows.get(table) ?? 0),
    boundKeys: async (earlier = []) => {
      const rows = await sql<{ key: string }>(
        'SELECT idempotency_key AS key FROM idempotency_keys WHERE idempotency_key <> ALL ($1)',
        [earlier],
      )
      return rows.map(({ key }) => key)
    },
    post,
    transcribe: ({ body, ...request } = {}) =>
      post(
        '/v1/audio/transcriptions',
        body ?? { model: 'speechvendor/scribe-v2', audio_base64: sample.toString('base64') },
        request,
      ),
    stop: () => pool.end(),
  }
}
