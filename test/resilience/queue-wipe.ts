import { parseArgs } from 'node:util'
import { payChat, payChatPatiently, type SignedChat, signChat, upstreamCallsByKey } from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../support/processes/test-sandbox.ts'
import { type LossyQueue, lossyQueues, type QueueKind } from './queue-wipe/lossy-queue.ts'
import { parseOn, startCampaignServices } from './stack/outer-services.ts'
import { untilNoneLeft, untilReached } from './stack/until-reached.ts'

const PAYERS = 8
const FUNDS_ATOMIC = 1_000_000_000n
/** Fewer than there are jobs, so that most of them are still in the queue. */
const WORKER_CONCURRENCY = 16

export interface QueueWipeOptions {
  readonly jobs: number
  /** Whether workers are busy with the first jobs when the queue is lost, or start only afterwards. */
  readonly workers: 'running' | 'stopped'
  /** Where the queue is; default: the sandbox's PostgreSQL. */
  readonly queue?: QueueKind
  /** Whether objects are in a bucket instead of a folder. */
  readonly s3?: boolean
}

export interface QueueWipeReport {
  readonly jobs: number
  readonly workers: QueueWipeOptions['workers']
  readonly queue: QueueKind
  /** Number of lost messages. */
  readonly queued: number
  /** Number of unfinished jobs at that moment. */
  readonly unfinished: number
  /** Time from the loss (or the start of stopped workers) until every job was finished; the target is a minute. */
  readonly drainMs: number
  readonly completed: number
  readonly upstreamCalls: number
  readonly transfers: number
  readonly violations: readonly string[]
}

/** Accepts `jobs` paid calls, loses the queue, and waits until all are finished: the ledger alone must suffice. */
export async function runQueueWipe(options: QueueWipeOptions): Promise<QueueWipeReport> {
  const { queue = 'postgres', s3 = false } = options
  const lossy = await lossyQueues[queue]()
  const services = await startCampaignServices(s3 ? ['s3'] : [])
  try {
    const sandbox = await startStandaloneSandbox({
      outerServices: { ...lossy.services, ...services.settings },
      apiEnvironment: {
        ...WITHOUT_BUDGETS,
        HOLD_SECONDS: '1',
        REQUESTS_PER_MINUTE: '1000000',
        RPC_TIMEOUT_MS: '60000',
      },
      workerEnvironment: { ...WITHOUT_BUDGETS, WORKER_CONCURRENCY: String(WORKER_CONCURRENCY), LEASE_SECONDS: '60' },
    })
    try {
      return { queue, ...(await loseQueue(sandbox, lossy, options)) }
    } finally {
      await sandbox.stop()
    }
  } finally {
    await lossy.stop()
    await services.stop()
  }
}

async function loseQueue(
  sandbox: TestSandbox,
  lossy: LossyQueue,
  { jobs, workers }: QueueWipeOptions,
): Promise<Omit<QueueWipeReport, 'queue'>> {
  const chats = await signAll(sandbox, jobs)
  if (workers === 'stopped') process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  // Busy workers stay busy until the queue is lost.
  else process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
  // Callers are released after a second; only acceptance matters here.
  const accepted = Promise.all(chats.map((chat) => payChat(sandbox.info.baseUrl, chat)))
  const keys = chats.map(({ idempotencyKey }) => idempotencyKey)
  await untilNoneLeft(async () => keys.slice(await count(sandbox, 'SELECT count(*) AS count FROM jobs')))
  if (workers === 'stopped') await accepted
  else
    await untilReached(
      'all workers are busy',
      async () => (await countCalls(sandbox)) >= Math.min(jobs, WORKER_CONCURRENCY),
    )
  const queued = await lossy.count(sandbox)
  await lossy.wipe(sandbox)
  const unfinished = (await readUnfinished(sandbox)).length
  if (workers === 'stopped') await sandbox.restart('worker')
  else process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
  const lostAt = performance.now()
  await untilNoneLeft(() => readUnfinished(sandbox))
  const drainMs = Math.round(performance.now() - lostAt)
  await accepted
  return { jobs, workers, queued, unfinished, drainMs, ...(await judge(sandbox, chats)) }
}

async function signAll({ info }: TestSandbox, jobs: number): Promise<readonly SignedChat[]> {
  const payers: Payer[] = []
  for (let payer = 0; payer < PAYERS; payer += 1)
    payers.push(await createPayer(info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true }))
  const chats: SignedChat[] = []
  for (let job = 0; job < jobs; job += 1) chats.push(await signChat(info.baseUrl, payers[job % PAYERS] as Payer))
  return chats
}

/** Repeats the signed request of every caller and returns the problems found. */
async function judge(sandbox: TestSandbox, chats: readonly SignedChat[]) {
  const { info, chain } = sandbox
  const answers = await Promise.all(chats.map((chat) => payChatPatiently([info.baseUrl], chat)))
  const calls = await upstreamCallsByKey(info)
  const transfers = await chain.transfersTo(info.payTo)
  const completed = answers.filter((one) => one.at(-1)?.status === 200).length
  const named = new Set(answers.map((one) => one.at(-1)?.transaction))
  const unnamed = transfers.filter(({ transactionHash }) => !named.has(transactionHash)).length
  const violations: string[] = []
  if (completed !== chats.length) violations.push(`${chats.length - completed} jobs are not completed`)
  if (transfers.length !== chats.length) violations.push(`${transfers.length} transfers for ${chats.length} jobs`)
  if (unnamed > 0) violations.push(`${unnamed} transfers of transactions that no answer names`)
  for (const { idempotencyKey } of chats)
    if (calls.get(idempotencyKey) !== 1) violations.push(`${calls.get(idempotencyKey) ?? 0} calls: ${idempotencyKey}`)
  const upstreamCalls = [...calls.values()].reduce((sum, one) => sum + one, 0)
  return { completed, upstreamCalls, transfers: transfers.length, violations }
}

function readUnfinished(sandbox: TestSandbox): Promise<readonly unknown[]> {
  return sandbox.sql(
    "SELECT id, state FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling') ORDER BY id",
  )
}

/** Returns the number of provider calls in progress. */
function countCalls(sandbox: TestSandbox): Promise<number> {
  return count(sandbox, "SELECT count(*) AS count FROM upstream_attempts WHERE state = 'open'")
}

async function count(sandbox: TestSandbox, statement: string): Promise<number> {
  const [row] = await sandbox.sql<{ count: string }>(statement)
  return Number(row?.count)
}

export const HELP = `Usage: npm run campaign -- queue-wipe [--jobs 200] [--on redis,s3]

Loses the queue while it contains jobs, with workers stopped and with workers running.`

/** Runs the command. Returns exit code 1 for any violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { jobs: { type: 'string', default: '200' }, on: { type: 'string', default: '' } },
  })
  const on = parseOn(values.on)
  const queue = on.includes('redis') ? 'redis' : 'postgres'
  const reports: QueueWipeReport[] = []
  for (const workers of ['stopped', 'running'] as const)
    reports.push(await runQueueWipe({ jobs: Number(values.jobs), workers, queue, s3: on.includes('s3') }))
  console.table(reports.map((report) => ({ ...report, violations: report.violations.join('; ') })))
  return reports.every(({ violations }) => violations.length === 0) ? 0 : 1
}
