import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { type ChatAnswer, payChat, payChatPatiently, type SignedChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer, type Payer } from '../support/payer/payer.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../support/processes/test-sandbox.ts'
import { untilNoneLeft, untilReached } from './stack/until-reached.ts'

const LEDGER_COMMAND = fileURLToPath(new URL('../../infra/commands/ledger/main.ts', import.meta.url))
const PAYERS = 8
const FUNDS_ATOMIC = 1_000_000_000n

export interface RestoreOptions {
  /** A third each is settled before the backup, in progress during it, and made after it. */
  readonly calls: number
  /** A checkout whose API and worker run, to compare with; default: this one. */
  readonly checkout?: string
}

export interface RestoreReport {
  readonly calls: number
  /** Jobs that the backup contains unfinished, by state. */
  readonly unfinishedInBackup: Readonly<Record<string, number>>
  /** Payments that the chain had settled before the restore, and those of them that the restored ledger does not know. */
  readonly settledBefore: number
  readonly lost: number
  /** The final answers to callers who came back with key and signature, such as `409 payment_already_settled`. */
  readonly answers: Readonly<Record<string, number>>
  /** Settled payments of unfinished jobs or lost calls that a person finds in the ledger. */
  readonly recordedForReview: number
  /** Differences that `npm run ledger` finds between ledger and chain. */
  readonly exitCodeOfLedger: number
  readonly chargedTwice: readonly string[]
  /** Callers who were told that nothing was charged, or to pay again, after money had moved. */
  readonly toldNone: readonly string[]
  readonly violations: readonly string[]
}

/**
 * Takes a cold copy of PostgreSQL's folder while calls are in progress, makes further calls, puts the copy back, and lets
 * every caller come back with key and signature. Callers obey: who is asked for another payment makes it.
 */
export async function runRestore({ calls, checkout }: RestoreOptions): Promise<RestoreReport> {
  const sandbox = await startStandaloneSandbox({
    ...(checkout === undefined ? {} : { rootOf: () => checkout }),
    apiEnvironment: { ...WITHOUT_BUDGETS, REQUESTS_PER_MINUTE: '1000000', HOLD_SECONDS: '5' },
    workerEnvironment: { ...WITHOUT_BUDGETS, LEASE_SECONDS: '5' },
  })
  try {
    const chats = await signAll(sandbox, calls)
    const third = Math.ceil(calls / 3)
    const [before, during, after] = [chats.slice(0, third), chats.slice(third, 2 * third), chats.slice(2 * third)]
    await payAll(sandbox, before)
    const unfinishedInBackup = await copyDuring(sandbox, during)
    await payAll(sandbox, after)
    const settled = await settledAmong(sandbox, chats)
    await restore(sandbox)
    return { calls, unfinishedInBackup, ...(await comeBack(sandbox, chats, settled)) }
  } finally {
    await sandbox.stop()
  }
}

async function signAll({ info }: TestSandbox, calls: number): Promise<readonly SignedChat[]> {
  const payers: Payer[] = []
  for (let payer = 0; payer < PAYERS; payer += 1)
    payers.push(await createPayer(info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true }))
  const chats: SignedChat[] = []
  for (let call = 0; call < calls; call += 1) chats.push(await signChat(info.baseUrl, payers[call % PAYERS] as Payer))
  return chats
}

async function payAll({ info }: TestSandbox, chats: readonly SignedChat[]): Promise<void> {
  const answers = await Promise.all(chats.map((chat) => payChatPatiently([info.baseUrl], chat)))
  const failed = answers.flatMap((all) => all.at(-1) ?? []).find(({ status }) => status !== 200)
  if (failed) throw new Error(`a call failed before the restore: ${failed.body}`)
}

const folders = ({ directory }: TestSandbox) => ({
  data: join(directory, 'postgres'),
  copy: join(directory, 'postgres-backup'),
})

/** Copies the database with calls in progress; they are settled after the copy. */
async function copyDuring(sandbox: TestSandbox, chats: readonly SignedChat[]): Promise<Record<string, number>> {
  process.kill(sandbox.pidOf('upstream'), 'SIGSTOP')
  const paid = Promise.all(chats.map((chat) => payChat(sandbox.info.baseUrl, chat)))
  const [accepted, generating] = [chats.length, Math.min(4, chats.length)]
  await untilReached('every call is accepted, and some are with the provider', async () => {
    const states = await countUnfinished(sandbox)
    return sum(Object.values(states)) === accepted && (states['generating'] ?? 0) >= generating
  })
  const unfinished = await countUnfinished(sandbox)
  await stopDatabase(sandbox)
  const { data, copy } = folders(sandbox)
  await copyFolder(data, copy)
  await sandbox.restart('database')
  process.kill(sandbox.pidOf('upstream'), 'SIGCONT')
  await paid
  await untilNoneLeft(async () => Object.keys(await countUnfinished(sandbox)))
  return unfinished
}

/** Puts the copy back in place of the database, with API and worker stopped. */
async function restore(sandbox: TestSandbox): Promise<void> {
  const { data, copy } = folders(sandbox)
  for (const name of ['api', 'worker'] as const) process.kill(sandbox.pidOf(name), 'SIGKILL')
  await stopDatabase(sandbox)
  await rm(data, { recursive: true })
  await copyFolder(copy, data)
  await sandbox.restart('database')
  await sandbox.restart('api')
  await sandbox.restart('worker')
}

async function stopDatabase(sandbox: TestSandbox): Promise<void> {
  // PostgreSQL's fast shutdown.
  process.kill(sandbox.pidOf('database'), 'SIGINT')
  await untilReached('the database has stopped', () => !isAlive(sandbox.pidOf('database')))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Copies with owners and modes: PostgreSQL may run as another user. */
async function copyFolder(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to])
}

async function countUnfinished(sandbox: TestSandbox): Promise<Record<string, number>> {
  const rows = await sandbox.sql<{ state: string; count: number }>(
    `SELECT state, count(*)::int AS count FROM jobs
     WHERE state IN ('accepted', 'generating', 'generated', 'settling') GROUP BY state`,
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

/** Returns the calls whose payment the chain has settled. */
async function settledAmong({ chain }: TestSandbox, chats: readonly SignedChat[]): Promise<ReadonlySet<SignedChat>> {
  const isUsed = await Promise.all(chats.map(({ payer, nonce }) => chain.isPermit2NonceUsed(payer.address, nonce)))
  return new Set(chats.filter((_, index) => isUsed[index]))
}

/** Lets every caller come back, and pay again when the answer says so; then compares with the chain. */
async function comeBack(sandbox: TestSandbox, chats: readonly SignedChat[], settledBefore: ReadonlySet<SignedChat>) {
  const { info } = sandbox
  const returned = await Promise.all(
    chats.map(async (chat) => {
      const answers = await payChatPatiently([info.baseUrl], chat)
      const final = answers.at(-1) as ChatAnswer
      if (final.retry !== 'new_payment') return { chat, answers, final, again: null }
      const again = await signChat(info.baseUrl, chat.payer, { idempotencyKey: chat.idempotencyKey })
      await payChatPatiently([info.baseUrl], again)
      return { chat, answers, final, again }
    }),
  )
  const settledAgain = await settledAmong(
    sandbox,
    returned.flatMap(({ again }) => again ?? []),
  )
  const toldNone = returned.filter(
    ({ chat, answers }) => settledBefore.has(chat) && answers.some((answer) => deniesPayment(answer)),
  )
  const chargedTwice = returned.filter(({ chat, again }) => settledBefore.has(chat) && again && settledAgain.has(again))
  const answers = returned.map(({ final }) => `${final.status} ${final.code}`.trim())
  const [recorded] = await sandbox
    .sql<{ count: number }>('SELECT count(*)::int AS count FROM unknown_settlements')
    .catch(() => [{ count: 0 }])
  const known = await sandbox.sql<{ nonce: string }>(
    "SELECT nonce FROM authorizations JOIN jobs ON jobs.id = job_id WHERE state = 'completed'",
  )
  const knownNonces = new Set(known.map(({ nonce }) => nonce))
  const lost = chats.filter((chat) => settledBefore.has(chat) && !knownNonces.has(chat.nonce.toString())).length
  const report = {
    settledBefore: settledBefore.size,
    lost,
    answers: Object.fromEntries(
      Object.entries(Object.groupBy(answers, (answer) => answer)).map(([answer, all]) => [answer, all?.length ?? 0]),
    ),
    recordedForReview: recorded?.count ?? 0,
    exitCodeOfLedger: await runLedgerCommand(sandbox),
    chargedTwice: chargedTwice.map(({ chat }) => chat.idempotencyKey),
    toldNone: toldNone.map(({ answers }) => answers.map(({ status, code }) => `${status} ${code}`).join(', ')),
  }
  return { ...report, violations: violationsOf(report) }
}

/** An overloaded service sheds requests before it reads any payment, and asks for the same one again. */
function deniesPayment({ code, payment, retry }: ChatAnswer): boolean {
  return code !== 'overloaded' && (payment === 'none' || retry === 'new_payment')
}

function violationsOf(
  report: Pick<RestoreReport, 'lost' | 'recordedForReview' | 'exitCodeOfLedger' | 'chargedTwice' | 'toldNone'>,
): readonly string[] {
  const { lost, recordedForReview, exitCodeOfLedger, chargedTwice, toldNone } = report
  return [
    ...(chargedTwice.length > 0 ? [`${chargedTwice.length} callers were charged twice`] : []),
    ...(toldNone.length > 0 ? [`${toldNone.length} callers were told that nothing was charged`] : []),
    ...(recordedForReview === lost ? [] : [`${recordedForReview} of ${lost} lost payments are recorded for a person`]),
    ...(lost === 0 || exitCodeOfLedger === 1 ? [] : ['npm run ledger does not report the lost payments']),
  ]
}

async function runLedgerCommand({ info }: TestSandbox): Promise<number> {
  const environment = { ...process.env, DATABASE_URL: info.databaseUrl, RPC_URL: info.rpcUrl, PAY_TO: info.payTo }
  const ran = await promisify(execFile)(process.execPath, [LEDGER_COMMAND, '--json'], {
    env: { ...environment, FACILITATOR_ADDRESSES: info.settlementAddresses.join(',') },
    maxBuffer: 1e8,
  }).catch((error: { readonly code: number }) => error)
  return 'code' in ran ? ran.code : 0
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}

export const HELP = `Usage: npm run campaign -- restore [--calls 200] [--checkout FOLDER]

Takes a cold copy of PostgreSQL's folder while calls are in progress, goes on with further calls, puts the copy back, and
lets every caller come back with key and signature. Nobody may be charged twice, or told that nothing was charged after
money has moved; every lost payment must be recorded for a person and reported by npm run ledger.

  --calls     a third each before, during and after the copy
  --checkout  a folder with another version, installed, whose API and worker are used`

/** Runs the command. Returns exit code 1 for any violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { calls: { type: 'string', default: '200' }, checkout: { type: 'string' } },
  })
  const { calls, checkout } = values
  const report = await runRestore({ calls: Number(calls), ...(checkout === undefined ? {} : { checkout }) })
  console.log(JSON.stringify(report, null, 2))
  return report.violations.length === 0 ? 0 : 1
}
