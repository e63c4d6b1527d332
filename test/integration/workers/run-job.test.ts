import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { newStagedUpload } from '#shared/media/staged-upload.ts'
import { currentReceiptSchema } from '#shared/payment/receipt.ts'
import { type MetricsServer, serveMetrics } from '#shared/runtime/metrics-server.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { readConfig } from '../../../workers/config.ts'
import { createDependencies } from '../../../workers/dependencies.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { emptyOutput } from '../../../workers/providers/failures.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import { addDeploymentMetrics, addRetirementMetric } from '../../../workers/telemetry/deployment-metrics.ts'
import { called } from '../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { routedTo, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

const UNTOUCHED = 1_000_000n
const UNCHARGED = { charge_amount: null, result_body: null, receipt_id: null, settlements: [] }
type ProviderFailureRow = readonly [string, FaultRuleInput, string, `failed_${'definite' | 'empty' | 'ambiguous'}`]
const status = (code: number): FaultRuleInput => ({ fault: 'status', status: code })
const PROVIDER_FAILURES: readonly ProviderFailureRow[] = [
  ['rate limits us', status(429), 'provider_unavailable', 'failed_definite'],
  ['rejects the API key', status(401), 'provider_unavailable', 'failed_definite'],
  ['rejects the input', status(422), 'provider_rejected', 'failed_definite'],
  ['reports a bad request', status(400), 'provider_rejected', 'failed_definite'],
  ['has an internal error', status(500), 'provider_outcome_unknown', 'failed_ambiguous'],
  ['is unavailable', status(503), 'provider_outcome_unknown', 'failed_ambiguous'],
  ['hangs', { fault: 'hang' }, 'provider_outcome_unknown', 'failed_ambiguous'],
  [
    'resets the connection after reading the request',
    { fault: 'resetAfterRead' },
    'provider_outcome_unknown',
    'failed_ambiguous',
  ],
  [
    'resets the connection before reading the request',
    { fault: 'resetBeforeRead' },
    'provider_outcome_unknown',
    'failed_ambiguous',
  ],
  [
    'resets the connection within its response',
    { fault: 'resetMidBody' },
    'provider_outcome_unknown',
    'failed_ambiguous',
  ],
  ['returns truncated JSON', { fault: 'truncatedJson' }, 'provider_outcome_unknown', 'failed_ambiguous'],
  ['returns an endless body', { fault: 'hugeBody' }, 'provider_outcome_unknown', 'failed_ambiguous'],
  ['returns no transcript', { fault: 'emptyText' }, 'provider_empty_output', 'failed_empty'],
]
/** The timeout for a provider that never answers. */
const HANGING_TIMEOUT_MS = 400
const router = createRouter(
  [{ name: 'first', serves: ['model'], vendor: 'vendor', upstreamModel: 'model', priority: 0, weight: 1 }],
  {
    now: () => new Date(),
    random: Math.random,
    maximumTimeoutMs: 1000,
    failuresToOpen: 1,
  },
)

describe('running a job', () => {
  let worker: TestWorker
  beforeAll(async () => {
    worker = await startTestWorker()
  })

  beforeEach(() => {
    worker.upstream.setFaults([])
    worker.upstream.clearCalls()
    worker.proxy.setFault(null)
  })

  afterAll(() => worker.stop())

  async function transfersFrom(payer: { address: string }): Promise<bigint[]> {
    const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
    return transfers.filter(({ from }) => from.toLowerCase() === payer.address).map(({ valueAtomic }) => valueAtomic)
  }
  describe('an accepted job', () => {
    it('an accepted job completes with one call, one transfer, a receipt and an erased upload', async () => {
      const { jobId, payer, request } = await worker.accept()
      await worker.run(jobId)
      const view = await worker.view(jobId)
      expect(view).toMatchObject({
        state: 'completed',
        charge_amount: '5034',
        has_key: false,
        leased: false,
        attempts: ['succeeded'],
        settlements: ['confirmed'],
      })
      expect(JSON.parse(view.result_body ?? '')).toMatchObject({ text: expect.stringContaining('simulated') })
      expect(worker.upstream.calls).toHaveLength(1)
      expect(await transfersFrom(payer)).toEqual([5034n])

      const receipt = await worker.ledger.acceptance.findReceipt(view.receipt_id ?? '')
      expect(currentReceiptSchema.parse(receipt)).toMatchObject({
        charge_atomic: '5034',
        payer: payer.address,
        request_digest: request.requestDigest,
        result_digest: sha256Hex(view.result_body ?? ''),
      })
      const proof = await worker.devnet.client.getTransactionReceipt({ hash: receipt?.transaction as `0x${string}` })
      expect([proof.status, proof.blockNumber.toString()]).toEqual(['success', receipt?.block_number])
    })

    it('a job that is delivered ten times concurrently runs once', async () => {
      const { jobId, payer } = await worker.accept()
      await Promise.all(Array.from({ length: 10 }, () => worker.run(jobId)))
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
      expect(worker.upstream.calls).toHaveLength(1)
      expect(await transfersFrom(payer)).toEqual([5034n])
    })

    it('a completed job notifies its waiters', async () => {
      const { jobId } = await worker.accept()
      const client = await worker.ledger.pool.connect()
      const woken: string[] = []
      client.on('notification', ({ payload }) => woken.push(payload ?? ''))
      await client.query('LISTEN farebox_outcomes')
      await worker.run(jobId)
      await expect.poll(() => woken).toContain(jobId)
      client.release(true)
    })

    it('an unknown job id is ignored', async () => {
      await worker.run('00000000-0000-4000-8000-000000000000')
      expect(worker.upstream.calls).toEqual([])
    })
  })

  describe('a job with a failing provider', () => {
    it.each(PROVIDER_FAILURES)('a job fails uncharged when the provider %s', async (_, fault, code, attempt) => {
      const { jobId, payer } = await worker.accept()
      worker.upstream.setFaults([fault])
      const isHanging = fault.fault === 'hang'
      await worker.run(jobId, routedTo([worker.deployment], isHanging ? HANGING_TIMEOUT_MS : PATIENCE_MS))
      const { length: calls } = worker.upstream.calls
      // The short timeout may pass before the call arrives.
      expect(isHanging ? [0, 1] : [1]).toContain(calls)
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: code,
        attempts: [attempt],
        // After an ambiguous failure the provider may still have the audio, so we keep ours; otherwise it is erased.
        has_key: attempt === 'failed_ambiguous',
        leased: false,
      })
      await worker.run(jobId)
      expect(worker.upstream.calls).toHaveLength(calls)
      expect(await devnetBalance(payer)).toBe(UNTOUCHED)
    })

    it('a job fails definitely and uncharged when the provider cannot be reached', async () => {
      const { jobId, payer } = await worker.accept()
      const transcription = {
        transcribe: () =>
          Promise.resolve({
            outcome: 'failed',
            certainty: 'definite',
            code: 'provider_unavailable',
            reason: 'not sent: ECONNREFUSED',
          } as const),
      }
      await worker.run(jobId, routedTo([{ ...worker.deployment, transcription }], PATIENCE_MS))
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        attempts: ['failed_definite'],
        has_key: false,
      })
      expect(await devnetBalance(payer)).toBe(UNTOUCHED)
    })

    it('a job fails uncharged when no deployment serves its model', async () => {
      const { jobId } = await worker.accept()
      await worker.run(jobId, routedTo([], PATIENCE_MS))
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'provider_unavailable',
        attempts: [],
      })
    })
  })

  describe('calls that a vendor worked on without usable output', () => {
    it('are absorbed cost at their maxima, and stop the payer’s accepted jobs once the budget is used up', async () => {
      const payer = await createPayer(worker.devnet.rpcUrl)
      const before = await worker.ledger.reports.readLedgerTotals()
      const transcription = { transcribe: () => Promise.resolve(emptyOutput('HTTP 200 without a transcript')) }
      const changes = routedTo([{ ...worker.deployment, transcription }], PATIENCE_MS)
      for (let call = 0; call < 5; call += 1) {
        const { jobId } = await worker.accept({ payer })
        await worker.run(jobId, changes)
        expect(await worker.view(jobId)).toMatchObject({
          ...UNCHARGED,
          failure_code: 'provider_empty_output',
          attempts: ['failed_empty'],
          has_key: false,
        })
      }
      const { uncharged } = await worker.ledger.reports.readLedgerTotals()
      expect(uncharged.empty_output.count - before.uncharged.empty_output.count).toBe(5)
      expect(uncharged.empty_output.total - before.uncharged.empty_output.total).toBe(5n * 5034n)

      const { jobId } = await worker.accept({ payer })
      await worker.ledger.sql('UPDATE uncharged_work SET amount = 200000 WHERE payer = $1', [payer.address])
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'uncharged_work_limit',
        attempts: [],
      })
      expect(worker.upstream.calls).toEqual([])
      expect(await devnetBalance(payer)).toBe(UNTOUCHED)
    })
  })

  describe('jobs without a provider call', () => {
    it('a job found in generating fails uncharged, since its call may have been billed', async () => {
      const { jobId, payer } = await worker.accept()
      const dead = await worker.ledger.execution.leaseJob(jobId, 60_000)
      if (!dead) throw new Error('not claimed')
      await worker.ledger.execution.startAttempt(dead, called('elevenlabs'), null)
      const expired =
        "UPDATE jobs SET lease_expires_at = now() - interval '1 second', orphaned_at = now() WHERE id = $1"
      await worker.ledger.sql(expired, [jobId])
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'provider_outcome_unknown',
        attempts: ['failed_ambiguous'],
        has_key: true,
      })
      expect(worker.upstream.calls).toEqual([])
      expect(await devnetBalance(payer)).toBe(UNTOUCHED)
    })

    it('no provider is called once the payer has moved their funds after acceptance', async () => {
      const { jobId, payer } = await worker.accept()
      await payer.spend(999_999n)
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'insufficient_funds',
        attempts: [],
        has_key: false,
      })
      expect(worker.upstream.calls).toEqual([])
    })

    it('no provider is called once the payer has used the nonce after acceptance', async () => {
      const { jobId, payer, request } = await worker.accept()
      await payer.invalidateNonce(request.authorization.nonce)
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        state: 'failed',
        failure_code: 'payment_nonce_used',
        attempts: [],
      })
      expect(worker.upstream.calls).toEqual([])
    })

    it('no provider is called when the signature would expire before its settlement', async () => {
      const deadline = BigInt(Math.floor(Date.now() / 1000) + 30)
      const { jobId } = await worker.accept({ signed: { deadline } })
      await worker.run(jobId, { providerTimeoutMs: 20_000, settlementMarginMs: 11_000 })
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'authorization_too_short',
        attempts: [],
      })
      expect(worker.upstream.calls).toEqual([])
    })

    it.each(['expired', 'missing'] as const)('no provider is called when the staged upload is %s', async (how) => {
      const { jobId, request } = await worker.accept()
      const { id, objectKey } = request.stagedUpload
      if (how === 'missing') await worker.uploads.delete(objectKey)
      else
        await worker.ledger.sql("UPDATE staged_uploads SET expires_at = now() - interval '1 second' WHERE id = $1", [
          id,
        ])
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        ...UNCHARGED,
        state: 'failed',
        failure_code: 'upload_expired',
        attempts: [],
      })
      expect(worker.upstream.calls).toEqual([])
    })

    it('no provider is called when the staged upload was replaced or damaged', async () => {
      const { jobId, request } = await worker.accept()
      const other = await worker.accept()
      const bytes = await worker.uploads.get(other.request.stagedUpload.objectKey)
      await worker.uploads.put(request.stagedUpload.objectKey, bytes ?? new Uint8Array())
      await worker.run(jobId).catch(() => undefined)
      expect(worker.upstream.calls).toEqual([])
      expect(await worker.view(jobId)).toMatchObject({ ...UNCHARGED, attempts: [] })
    })
  })

  /** Starts a run and makes its provider call; the response is held back until `finish` is called. */
  async function heldInCall(jobId: string, changes: Parameters<TestWorker['run']>[1] = {}) {
    const reached = Promise.withResolvers<void>()
    const resume = Promise.withResolvers<void>()
    const { transcription } = worker.deployment
    if (!transcription) throw new Error('the deployment transcribes')
    const held: typeof transcription = {
      transcribe: async (...parameters) => {
        const answer = await transcription.transcribe(...parameters)
        reached.resolve()
        await resume.promise
        return answer
      },
    }
    const router = routedTo([{ ...worker.deployment, transcription: held }], PATIENCE_MS)
    const running = worker.run(jobId, { ...router, ...changes })
    await reached.promise
    return { finish: async () => (resume.resolve(), await running) }
  }
  describe('a result whose payment failed', () => {
    it('a result is withheld when the payer moves their funds between call and settlement', async () => {
      const { jobId, payer } = await worker.accept()
      const { finish } = await heldInCall(jobId)
      await payer.spend(999_000n)
      await finish()
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        failure_code: 'settlement_failed',
        receipt_id: null,
        settlements: [],
        leased: false,
      })
      expect((await worker.ledger.acceptance.readOutcomes([jobId])).get(jobId)).toEqual({
        state: 'settlement_failed',
        failureCode: 'settlement_failed',
      })
      expect(await devnetBalance(payer)).toBe(1000n)
      expect(await transfersFrom(payer)).toEqual([])
    })

    it('a result is withheld when the signed settlement reverts on chain', async () => {
      const { jobId, payer } = await worker.accept()
      const { settler } = worker.dependencies
      // Between signing and broadcast.
      const broadcast: typeof settler.broadcast = async (transaction) => {
        await payer.spend(1_000_000n)
        return await settler.broadcast(transaction)
      }
      await worker.run(jobId, { settler: { ...settler, broadcast } })
      expect(await worker.view(jobId)).toMatchObject({
        state: 'settlement_failed',
        receipt_id: null,
        settlements: ['reverted'],
      })
      expect(await transfersFrom(payer)).toEqual([])
    })

    it('a withheld result is released when a fresh authorization pays for it, without a second call', async () => {
      const { jobId, payer, request } = await worker.accept()
      const { settler } = worker.dependencies
      await worker.run(jobId, {
        settler: { ...settler, prepare: async () => ({ outcome: 'refused', code: 'insufficient_funds' }) },
      })
      const withheld = await worker.view(jobId)
      expect(withheld).toMatchObject({ state: 'settlement_failed' })
      const fresh = {
        ...request,
        authorization: await signAuthorization(worker.devnet, payer),
        stagedUpload: newStagedUpload(),
      }
      expect(await worker.ledger.acceptance.acceptPayment(fresh)).toMatchObject({ outcome: 'settles_again' })
      await worker.run(jobId)
      expect(await worker.view(jobId)).toMatchObject({
        state: 'completed',
        result_body: withheld.result_body,
        attempts: ['succeeded'],
        settlements: ['confirmed'],
      })
      expect(worker.upstream.calls).toHaveLength(1)
      expect(await transfersFrom(payer)).toEqual([5034n])
    })

    it('a job needs review when its settlement succeeded on chain without the transfer', async () => {
      const { jobId } = await worker.accept()
      const { settler } = worker.dependencies
      await worker.run(jobId, {
        settler: { ...settler, confirm: async () => ({ outcome: 'transfer_missing', blockNumber: 1n }) },
      })
      expect(await worker.view(jobId)).toMatchObject({ state: 'review', receipt_id: null, settlements: ['unproven'] })
    })
  })

  async function takeOver(jobId: string): Promise<void> {
    const taken = await worker.ledger.sql(
      "UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + interval '1 minute' WHERE id = $1 RETURNING id",
      [jobId],
    )
    expect(taken).toHaveLength(1)
  }
  describe('a worker that loses its lease during the call', () => {
    it('a worker that lost its lease during the call writes nothing when the response arrives', async () => {
      const { jobId, payer } = await worker.accept()
      const { finish } = await heldInCall(jobId)
      await takeOver(jobId)
      const before = await worker.ledger.fingerprint()
      await finish()
      expect(await worker.ledger.fingerprint()).toBe(before)
      expect(await worker.view(jobId)).toMatchObject({ ...UNCHARGED, state: 'generating', attempts: ['open'] })
      expect(await transfersFrom(payer)).toEqual([])
    })

    it('a worker aborts the call when renewing the lease fails, and writes nothing', async () => {
      const { jobId } = await worker.accept()
      worker.upstream.setFaults([{ fault: 'hang' }])
      // The call's timeout is longer than the test's.
      const running = worker.run(jobId, { leaseMs: 600, ...routedTo([worker.deployment], 400_000) })
      await until(() => worker.upstream.calls.length === 1)
      await takeOver(jobId)
      const before = await worker.ledger.fingerprint()
      await running
      expect(await worker.ledger.fingerprint()).toBe(before)
    })

    it('a worker that leased a job again keeps that lease when it notices that an earlier one is lost', async () => {
      const { jobId } = await worker.accept()
      const { verifier, executionStore } = worker.dependencies
      const leases = createJobLeases({
        ...worker.dependencies,
        leaseMs: 300,
        executionStore: { ...executionStore, renewLeases: (jobs) => executionStore.renewLeases(jobs, PATIENCE_MS) },
      })
      const changes = { leases, leaseMs: PATIENCE_MS, ...routedTo([worker.deployment], PATIENCE_MS) }
      const asked = Promise.withResolvers<void>()
      const answer = Promise.withResolvers<void>()
      const verify: typeof verifier.verify = async (...payment) => {
        asked.resolve()
        await answer.promise
        return await verifier.verify(...payment)
      }
      const earlier = worker.run(jobId, { ...changes, verifier: { ...verifier, verify } })
      await asked.promise
      // As after an outage of the ledger that was longer than a lease.
      await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 s' WHERE id = $1", [jobId])
      worker.upstream.setFaults([{ fault: 'none', delayMs: 1500 }])
      await worker.run(jobId, changes)
      answer.resolve()
      await earlier
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed', attempts: ['succeeded'] })
    })

    it('a worker keeps its lease during a call that is longer than the lease', async () => {
      const { jobId } = await worker.accept()
      const { executionStore } = worker.dependencies
      let renewals = 0
      // Long enough that no lease expires before the next renewal.
      const renewLeases: typeof executionStore.renewLeases = async (jobs) => {
        const lost = await executionStore.renewLeases(jobs, PATIENCE_MS)
        renewals += 1
        return lost
      }
      const { finish } = await heldInCall(jobId, { leaseMs: 300, executionStore: { ...executionStore, renewLeases } })
      // The lease is renewed every third of its duration: after three renewals the first one has expired.
      await until(() => renewals >= 3)
      expect(await worker.ledger.execution.leaseJob(jobId, 1000)).toBeNull()
      await finish()
      expect(await worker.view(jobId)).toMatchObject({ state: 'completed' })
    })
  })

  it('a worker logs no audio, transcript, key or signature', async () => {
    const { jobId, request } = await worker.accept()
    worker.upstream.setFaults([status(400)])
    await worker.run(jobId)
    const log = worker.logged.join('\n')
    expect(log).toContain('provider call failed')
    for (const secret of ['simulated', 'test-key', request.authorization.signature, request.idempotencyKey])
      expect(log).not.toContain(secret)
  })

  async function devnetBalance(payer: { address: `0x${string}` }): Promise<bigint> {
    return await worker.devnet.usdcBalance(payer.address)
  }
})

describe('composing a worker', () => {
  let ledger: TestLedger
  let directory: string
  beforeAll(async () => {
    ledger = await createTestLedger()
    directory = await mkdtemp(join(tmpdir(), 'farebox-dependencies-'))
    await writeFile(join(directory, 'deployments.json'), '{ "deployments": [] }')
  })

  afterAll(async () => {
    await ledger.close()
    await rm(directory, { recursive: true, force: true })
  })

  const configOf = (deployments: string) =>
    readConfig({
      DATABASE_URL: ledger.url,
      RPC_URL: 'http://127.0.0.1:9',
      SETTLEMENT_PRIVATE_KEYS: `0x${'1'.repeat(64)}`,
      RECEIPT_SECRET_ID: 'first',
      PUBLIC_BASE_URL: 'http://api.test',
      OBJECT_STORE_DIRECTORY: directory,
      DEPLOYMENTS_FILE: join(directory, deployments),
      LOG_LEVEL: 'silent',
    })
  /** Counts the connections to the ledger's database other than this test's. */
  async function connections(): Promise<number> {
    const [row] = await ledger.sql<{ count: number }>(
      `SELECT count(*)::int AS count FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'farebox ledger test'`,
    )
    return row?.count ?? -1
  }
  test('closing the dependencies of a worker closes every connection', async () => {
    const dependencies = await createDependencies(configOf('deployments.json'))
    expect(await connections()).toBeGreaterThan(0)
    await dependencies.close()
    await expect.poll(connections).toBe(0)
  })

  test.each([
    [
      'a setting as its key',
      { api_key_env: 'DATABASE_URL' },
      /DEPLOYMENTS_FILE: deployment own: DATABASE_URL is a setting/,
    ],
    [
      'a key that PROVIDER_KEYS sends elsewhere',
      { api_key_env: 'A_KEY' },
      /DEPLOYMENTS_FILE: [^]*own: A_KEY may not be sent/,
    ],
  ])('a worker does not start with a file of its own that names %s', async (_, named, message) => {
    const entry = { name: 'own', adapter: 'gemini', base_url: 'https://a.test', upstream_model: 'm', serves: ['m'] }
    await writeFile(join(directory, 'own.json'), JSON.stringify({ deployments: [{ ...entry, ...named }] }))
    await ledger.sql('TRUNCATE publications CASCADE')
    const config = { ...configOf('own.json'), PROVIDER_KEYS: { A_KEY: ['https://b.test'] } }
    await expect(createDependencies(config)).rejects.toThrow(message)
    await expect.poll(connections).toBe(0)
  })

  test('a failed start names the setting and closes what was opened', async () => {
    const start = createDependencies(configOf('missing.json'))
    await expect(start).rejects.toThrow(StartFailure)
    await expect(start).rejects.toThrow('DEPLOYMENTS_FILE')
    await expect.poll(connections).toBe(0)
  })
})

describe('metrics of a worker', () => {
  let deployments: Pick<Deployment, 'name' | 'knownRetirement'>[] = []
  let server: MetricsServer
  beforeAll(async () => {
    const registry = new Registry()
    addDeploymentMetrics(registry, router)
    addRetirementMetric(registry, () => deployments)
    server = await serveMetrics(registry, '127.0.0.1', 0)
  })

  afterAll(() => server.close())

  const scrape = async () => (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text()
  const retirements = async () =>
    (await scrape()).split('\n').filter((line) => line.startsWith('farebox_deployment_model_retirement'))
  test('a healthy deployment has a closed circuit, and a failing one an open circuit and a count of its calls', async () => {
    expect(await scrape()).toContain('farebox_deployment_circuit{deployment="first",state="closed"} 1')
    const job = { acceptedAt: new Date(), signal: AbortSignal.abort() }
    for await (const slot of router.candidates('model', job))
      await slot.run(
        async () => ({ outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', reason: 'test' }),
        { payer: 'payer', hasPaid: true },
      )
    const text = await scrape()
    expect(text).toContain('farebox_deployment_circuit{deployment="first",state="open"} 1')
    expect(text).toContain('farebox_deployment_recent_calls{deployment="first"} 1')
    expect(text).toContain('farebox_deployment_active_calls{deployment="first"} 0')
  })

  test('the day on which a model retires is measured, as long as a deployment has the model', async () => {
    deployments = [{ name: 'a' }, { name: 'b', knownRetirement: new Date(1_790_000_000_000) }]
    expect(await retirements()).toEqual([
      'farebox_deployment_model_retirement_timestamp_seconds{deployment="b"} 1790000000',
    ])
    deployments = [{ name: 'a' }, { name: 'b' }]
    expect(await retirements()).toEqual([])
  })

  test('the metrics server serves /metrics and /healthz only', async () => {
    expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${server.port}/`)).status).toBe(404)
  })
})
