import pg from 'pg'
import { privateKeyToAccount } from 'viem/accounts'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { openAccount } from './measuring/account-session.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import { median, percentile } from './measuring/statistics.ts'

const [RECEIPTS, QUICK_RECEIPTS] = [100_000, 2000]
/** Completed calls of other wallets in the same tables, for each receipt of the measured one. */
const OTHERS = 2
const PAGE = 100
const COMPARED_PAGES = 50
const SUMS = 20
const LONGEST_PAGE_MS = 100
const DAY_MS = 24 * 3600 * 1000

/**
 * Measures how long a wallet with 100,000 receipts waits for each page of them, from the first to the last, and for the
 * sums of a year, with the processor time that each costs. Other programs change the waits, not the processor time.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const sandbox = await startFarebox()
  try {
    const count = quick ? QUICK_RECEIPTS : RECEIPTS
    await fillLedger(sandbox, count)
    const { baseUrl, payer } = sandbox.info
    const { read, signInMs } = await openAccount(baseUrl, privateKeyToAccount(payer.privateKey), PAGE)
    const pages = await measure(sandbox, async () => {
      const pagesMs: number[] = []
      let listed = 0
      for (let cursor: string | null = ''; cursor !== null; ) {
        const { body, ms } = await read(`receipts?limit=${PAGE}${cursor && `&cursor=${cursor}`}`)
        const page = JSON.parse(body) as { data: unknown[]; next_cursor: string | null }
        pagesMs.push(ms)
        listed += page.data.length
        cursor = page.next_cursor
      }
      // One of them was paid for.
      if (listed !== count + 1) throw new Error(`${listed} of ${count + 1} receipts were listed`)
      return pagesMs
    })
    const [from, to] = [-360, 1].map((days) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10))
    const sums = await measure(sandbox, async () => {
      const sumsMs: number[] = []
      for (let sum = 0; sum < SUMS; sum++) sumsMs.push((await read(`spend?from=${from}&to=${to}`)).ms)
      return sumsMs
    })
    const [first, last] = [pages.values.slice(0, COMPARED_PAGES), pages.values.slice(-COMPARED_PAGES)]
    return {
      rows: [
        { read: `page of ${PAGE} receipts`, ...summary(pages.values), ...pages.cpu },
        { read: `the first ${first.length} of them`, ...summary(first), 'API ms': '', 'PostgreSQL ms': '' },
        { read: `the last ${last.length} of them`, ...summary(last), 'API ms': '', 'PostgreSQL ms': '' },
        { read: `spend of a year, ${count + 1} calls`, ...summary(sums.values), ...sums.cpu },
        { read: '402, signature and first page', ...summary([signInMs]), 'API ms': '', 'PostgreSQL ms': '' },
      ],
      ratios: [
        atMost(LONGEST_PAGE_MS, 'ms of a page, 99th percentile', percentile(pages.values, 0.99)),
        atMost(LONGEST_PAGE_MS, 'ms of processor time of a page', pages.cpu['API ms'] + pages.cpu['PostgreSQL ms']),
        atMost(1.5, 'last pages ÷ first pages, medians', median(last) / median(first)),
      ],
      limitedBy: 'signing and serializing the receipts of a page in the API',
    }
  } finally {
    await sandbox.stop()
  }
})

/** Runs requests, and returns their times with the mean processor time of one. */
async function measure(sandbox: TestSandbox, work: () => Promise<number[]>) {
  const pids = { api: sandbox.pidOf('api'), postgres: sandbox.pidOf('database') }
  const before = readCpuMs(pids)
  const values = await work()
  const after = readCpuMs(pids)
  const cpu = {
    'API ms': (after.api - before.api) / values.length,
    'PostgreSQL ms': (after.postgres - before.postgres) / values.length,
  }
  return { values, cpu }
}

function summary(values: readonly number[]) {
  return {
    requests: values.length,
    'p50 ms': median(values),
    'p99 ms': percentile(values, 0.99),
    'longest ms': Math.max(...values),
  }
}

/** Pays for one call and copies it: `count` times for its wallet over a year, and for other wallets. */
async function fillLedger({ payer, info }: TestSandbox, count: number): Promise<void> {
  const paid = await payer.fetch(`${info.baseUrl}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': 'bench-account' },
    body: JSON.stringify({ model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 16 }),
  })
  if (paid.status !== 200) throw new Error(`the first call: ${paid.status} ${await paid.text()}`)
  const changes = {
    jobs: {
      id: 'copies.job_id',
      receipt_id: 'copies.receipt_id',
      idempotency_key: "'copy-' || copies.number",
      payer: "CASE WHEN is_own THEN original.payer ELSE '0x' || lpad(to_hex(number % 4000), 40, '0') END",
      finished_at: 'copies.at',
      // Otherwise the sweepers would erase the results, and watch the settlements, of all copies meanwhile.
      result_body: 'NULL',
      result_expired_at: 'now()',
      public_model: "CASE number % 3 WHEN 0 THEN 'textmodel-2.5-flash' ELSE original.public_model END",
    },
    receipts: {
      id: 'copies.receipt_id',
      job_id: 'copies.job_id',
      body: "original.body || jsonb_build_object('id', copies.receipt_id)",
    },
    settlements: {
      id: 'gen_random_uuid()',
      job_id: 'copies.job_id',
      authorization_id: 'gen_random_uuid()',
      account_nonce: 'copies.number + 1000',
      finalized_at: 'now()',
    },
  }
  // One connection: the setting and the table belong to it.
  const client = new pg.Client({ connectionString: info.databaseUrl })
  await client.connect()
  try {
    // Keys and authorizations are not copied, which the foreign keys would refuse.
    await client.query('SET session_replication_role = replica')
    await client.query(
      `CREATE TEMP TABLE copies AS SELECT gen_random_uuid() AS job_id, gen_random_uuid() AS receipt_id, number,
         now() - number * interval '360 days' / ${count} AS at, number <= ${count} AS is_own
       FROM generate_series(1, ${count * (1 + OTHERS)}) AS number`,
    )
    for (const [table, expressions] of Object.entries(changes)) await copyRow(client, table, expressions)
    await client.query('VACUUM ANALYZE jobs, receipts, settlements')
  } finally {
    await client.end()
  }
}

/** Inserts a table's only row once for each of `copies`, with some columns replaced by an expression. */
async function copyRow(client: pg.Client, table: string, expressions: Record<string, string>): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1",
    [table],
  )
  const names = rows.map(({ name }) => name)
  const values = names.map((name) => expressions[name] ?? `original.${name}`)
  await client.query(
    `INSERT INTO ${table} (${names.join(', ')}) SELECT ${values.join(', ')} FROM copies, ${table} AS original`,
  )
}
