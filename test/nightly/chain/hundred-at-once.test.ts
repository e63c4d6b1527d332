import { afterAll, beforeAll, expect, it } from 'vitest'
import { createPool } from '#shared/ledger/pool.ts'
import { createSettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { createSettlementChain, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

let worker: TestWorker
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())
const JOBS = 100
const CHARGE = 5034n
/** Concurrent jobs of each worker, one per connection: waiting too long for a connection would be an error. */
const CONCURRENCY = 20
/**
 * Creates generated jobs that wait for settlement, each of a separate payer. Every tenth payer has a lasting approval.
 */
async function generatedJobs(chain: SettlementChain): Promise<AcceptedJob[]> {
  const jobs: AcceptedJob[] = []
  for (let number = 0; number < JOBS; number += 1) {
    const payer = await createPayer(worker.devnet.rpcUrl)
    if (number % 10 === 0) await payer.approve()
    const deadline = BigInt(Math.floor(Date.now() / 1000) + 3600)
    const signed = { facilitator: chain.facilitator, gasSponsored: number % 10 !== 0, deadline }
    jobs.push(await worker.accept({ payer, signed }))
  }
  const { settler } = chain.chain
  const unreachable = { ...settler, prepare: async () => ({ outcome: 'unreachable', cause: null }) as const }
  await inParallel(jobs, 8, ({ jobId }) => worker.run(jobId, { ...chain.chain, settler: unreachable }))
  await makeDue(jobs)
  return jobs
}
/** Returns the unfinished jobs and makes them due immediately. */
async function makeDue(jobs: readonly AcceptedJob[]): Promise<AcceptedJob[]> {
  const due = await worker.ledger.sql<{ id: string }>(
    "UPDATE jobs SET run_after = now() WHERE id = ANY($1) AND state IN ('generated', 'settling') RETURNING id",
    [jobs.map(({ jobId }) => jobId)],
  )
  return jobs.filter(({ jobId }) => due.some(({ id }) => id === jobId))
}
async function inParallel<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const take = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: width }, take))
}
function payerOf(job: AcceptedJob | undefined): Payer {
  return (job as AcceptedJob).payer
}
async function invalidate([revoked, drained, burned]: readonly AcceptedJob[]): Promise<void> {
  await payerOf(revoked).approve(0n)
  await payerOf(drained).spend(1_000_000n - CHARGE + 1n)
  await payerOf(burned).invalidateNonce((burned as AcceptedJob).request.authorization.nonce)
}
it.each([
  ['mined immediately', 0],
  ['in blocks of 2 seconds', 2],
])(
  'confirms 97 valid of 100 settlements of one key over two workers and fails only the 3 invalid ones, %s',
  async (name, blockTimeSeconds) => {
    const chain = await createSettlementChain(worker)
    const jobs = await generatedJobs(chain)
    await invalidate(jobs)
    if (blockTimeSeconds > 0) {
      await chain.rpc('evm_setAutomine', false)
      await chain.rpc('evm_setIntervalMining', blockTimeSeconds)
    }
    // The second worker has a separate pool and chain client, as another process has.
    const pool = createPool({
      connectionString: worker.ledger.url,
      maximumConnections: CONCURRENCY,
      applicationName: 'second worker',
      onError: () => undefined,
      connectTimeoutMs: PATIENCE_MS,
    })
    const second = { ...worker.through(worker.proxy, chain.privateKey), settlementStore: createSettlementStore(pool) }
    const replacements = setInterval(() => void Promise.all([chain.keep(), chain.keep()]).catch(() => undefined), 1000)
    const [calls, startedAt] = [worker.proxy.calls.length, performance.now()]
    for (let unfinished = jobs; unfinished.length > 0; unfinished = await makeDue(jobs))
      await Promise.all([
        inParallel(unfinished, CONCURRENCY, ({ jobId }) => worker.run(jobId, chain.chain)),
        inParallel(unfinished.toReversed(), CONCURRENCY, ({ jobId }) => worker.run(jobId, second)),
      ])
    clearInterval(replacements)
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    process.stdout.write(`${name}: ${seconds} s, ${worker.proxy.calls.length - calls} RPC calls\n`)

    const states = await worker.ledger.sql(
      'SELECT state, count(*)::int FROM jobs WHERE id = ANY($1) GROUP BY state ORDER BY state',
      [jobs.map(({ jobId }) => jobId)],
    )
    expect(states).toEqual([
      { state: 'completed', count: 97 },
      { state: 'settlement_failed', count: 3 },
    ])
    for (const { jobId } of jobs.slice(0, 3))
      expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', receipt_id: null })

    const nonces = await worker.ledger.sql<{ nonce: number }>(
      'SELECT account_nonce::int AS nonce FROM settlements WHERE facilitator = $1 ORDER BY account_nonce',
      [chain.facilitator],
    )
    expect(nonces.map(({ nonce }) => nonce)).toEqual(Array.from({ length: 97 }, (_, index) => index))
    expect(await chain.count()).toBe(97)
    const pending = await chain.rpc<Record<'pending' | 'queued', Record<string, unknown>>>('txpool_content')
    const senders = [...Object.keys(pending.pending), ...Object.keys(pending.queued)]
    expect(senders.map((sender) => sender.toLowerCase())).not.toContain(chain.facilitator)

    const payers = new Set(jobs.map(({ payer }) => payer.address))
    const transfers = (await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)).filter(({ from }) =>
      payers.has(from.toLowerCase() as `0x${string}`),
    )
    expect(transfers).toHaveLength(97)
    expect(new Set(transfers.map(({ from }) => from)).size).toBe(97)
    expect(transfers.every(({ valueAtomic }) => valueAtomic === CHARGE)).toBe(true)
    await pool.end()
  },
)
