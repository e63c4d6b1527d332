import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { createPayingClient, type PayingClient } from '../../infra/sandbox/paying-client.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../infra/sandbox/sandbox.ts'
import type { UpstreamCall } from '../../infra/sandbox/upstream/call-log.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { createChainReader } from './devnet.ts'

const SAMPLE = fileURLToPath(new URL('../../infra/sandbox/samples/last-tram.mp3', import.meta.url))

/** A whole farebox of real processes, with everything that a test looks at from outside. */
export interface TestSandbox extends Sandbox {
  /** Its state: secrets, stored objects, and each process's output in `logs`. */
  readonly directory: string
  readonly chain: ReturnType<typeof createChainReader>
  readonly payer: PayingClient
  readonly sample: Buffer
  /** The five ledgers' view from the upstream: every call it saw, in order. */
  upstreamCalls(): Promise<readonly UpstreamCall[]>
  setFaults(rules: readonly FaultRuleInput[]): Promise<void>
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /** One JSON request to a paid endpoint. */
  post(path: string, body: Record<string, unknown>, request?: Omit<TranscriptionCall, 'body'>): Promise<Response>
  /** `POST /v1/audio/transcriptions` in the JSON form. */
  transcribe(request?: TranscriptionCall): Promise<Response>
}

export interface TranscriptionCall {
  idempotencyKey?: string
  body?: Record<string, unknown>
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Starts a sandbox with fresh state in a temporary folder; `stop` removes it. */
export async function startTestSandbox(options: Partial<SandboxOptions> = {}): Promise<TestSandbox> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  const sandbox = await startSandbox({ directory, ...options })
  const { info } = sandbox
  const pool = new pg.Pool({ connectionString: info.databaseUrl, max: 2 })
  const sample = await readFile(SAMPLE)
  const simulator = (path: string, init?: RequestInit) => fetch(`${info.upstreamUrl}/_simulator/${path}`, init)
  const post: TestSandbox['post'] = (path, body, { idempotencyKey = randomUUID(), headers, signal } = {}) =>
    fetch(`${info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
      body: JSON.stringify(body),
      ...(signal ? { signal } : {}),
    })
  return {
    ...sandbox,
    directory,
    chain: createChainReader(info.rpcUrl),
    payer: createPayingClient({ privateKey: info.payer.privateKey, rpcUrl: info.rpcUrl, network: info.network }),
    sample,
    upstreamCalls: async () => ((await (await simulator('calls')).json()) as { calls: UpstreamCall[] }).calls,
    setFaults: async (rules) => {
      const answer = await simulator('faults', {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(rules),
      })
      if (!answer.ok) throw new Error(`the simulator refused the faults: ${await answer.text()}`)
    },
    sql: async <Row extends pg.QueryResultRow>(statement: string, parameters: readonly unknown[] = []) =>
      (await pool.query<Row>(statement, [...parameters])).rows,
    post,
    transcribe: ({ body, ...request } = {}) =>
      post(
        '/v1/audio/transcriptions',
        body ?? { model: 'speechvendor/scribe-v2', audio_base64: sample.toString('base64') },
        request,
      ),
    stop: async () => {
      await pool.end()
      await sandbox.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
