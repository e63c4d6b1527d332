import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { createSandboxAccount, fundSettlementAccount } from '../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import type { ServiceName } from '../../infra/sandbox/sandbox-options.ts'
import type { StartedCall } from './calls/paying-caller.ts'
import type { CallRecord } from './checker/ledgers.ts'
import { type CheckedReceipts, checkReceipts } from './rotations/check-receipts.ts'
import { createOperator, type Operator } from './rotations/operator.ts'
import { createKeySettings, type FirstKeys, type KeySettings, readFirstKeys } from './rotations/service-settings.ts'
import { listKeys } from './stack/pending-batches.ts'
import { type Comparison, compareLedgers } from './stack/stack-report.ts'
import { type CampaignStack, startCampaignStack } from './stack/stack.ts'
import { untilReached } from './stack/until-reached.ts'
import { startSteadyLoad } from './upgrade/steady-load.ts'

/** How long callers get to answer what they were offered. The APIs' challenges live longer, for a slow machine. */
const CHALLENGE_LIFETIME_MS = 5000
const APIS: readonly ServiceName[] = ['api', 'api-2']
const WORKERS: readonly ServiceName[] = ['worker', 'worker-2']
/** Another deployment serves the same model with the same voices. */
const DRAINED = 'elevenlabs-speech'
/** Of all models that the calls use. */
const PRICES = {
  models: {
    'textmodel-3.5-flash': { minimum_charge_usd: '0.003' },
    'textmodel-2.5-pro': { minimum_charge_usd: '0.004' },
    'speechvendor/flash-v2.5': { minimum_charge_usd: '0.01' },
    'speechvendor/scribe-v2': { minimum_charge_usd: '0.01' },
  },
}
/** Enough that several are quoted by one API and paid at the other, while these have different settings. */
const CALLS_BETWEEN_RESTARTS = 16
/** More than the chain needs to make a block final. */
const BLOCKS_TO_FINALITY = '0x80'

export interface RotationsOptions {
  readonly callers: number
  /** Calls that must finish in each phase. */
  readonly callsPerPhase: number
  /** Lets one API use the new keys before the other one accepts them: payments must then be refused. */
  readonly isCareless?: boolean
  readonly onProgress?: (line: string) => void
}

export interface RotationsReport extends Pick<Comparison<never>, 'stuckJobs' | 'jobs' | 'transfers'>, CheckedReceipts {
  readonly calls: number
  /** Calls whose caller did not get its result. */
  readonly failed: readonly string[]
  /** Payments that were refused and had to be signed again, with the reason. */
  readonly refusedPayments: readonly string[]
  readonly violations: readonly string[]
  /** Calls that the drained deployment got after all workers had drained it. */
  readonly callsWhileDrained: number
  /** Payments that were signed for the earlier keys, sent when all APIs ask for the new ones, and accepted as they are. */
  readonly acceptedForEarlierKeys: number
  /** What the console showed as wrong at the end of each phase. */
  readonly problems: readonly string[]
}

/** Everything that the phases share. */
interface Run {
  readonly stack: CampaignStack
  readonly settings: KeySettings
  readonly operator: Operator
  readonly first: FirstKeys
  readonly newRecipient: `0x${string}`
  readonly newKeys: Readonly<Record<'settlement' | 'challenge' | 'receipts' | 'statements', string>>
  readonly newFacilitator: string
  /** Restarts processes one after the other, with calls in between. */
  readonly replace: (names: readonly ServiceName[]) => Promise<void>
  readonly phase: (name: string) => Promise<void>
}

/**
 * Publishes a catalog, drains a deployment and rotates every kind of key by rolling restarts, as infra/keys.md says,
 * while callers pay for calls of all kinds. No call may fail, and every receipt must verify.
 */
export async function runRotations(options: RotationsOptions): Promise<RotationsReport> {
  const settings = createKeySettings()
  const newRecipient = createSandboxAccount().address
  const furtherSettlementAddresses: string[] = []
  const stack = await startCampaignStack({
    environmentOf: (name) => settings.of(name),
    furtherRecipients: [newRecipient],
    furtherSettlementAddresses,
  })
  const operator = createOperator(stack)
  try {
    const load = startSteadyLoad(stack, options.callers)
    const problems: string[] = []
    const phase = async (name: string) => {
      await load.untilFinished(options.callsPerPhase)
      problems.push(...(await untilHarmless(operator)))
      options.onProgress?.(name)
    }
    const replace = async (names: readonly ServiceName[]) => {
      for (const name of names) {
        process.kill(stack.pidOf(name), 'SIGTERM')
        await stack.restart(name)
        await load.untilFinished(CALLS_BETWEEN_RESTARTS)
        options.onProgress?.(`  ${name} restarted`)
      }
    }
    await phase('served with the first keys')
    const first = await readFirstKeys(stack.directory)
    await publishAndDrain(stack, operator, phase)
    const drainedSince = await readClock(stack)
    const settlementKey = generatePrivateKey()
    const newFacilitator = privateKeyToAddress(settlementKey).toLowerCase()
    furtherSettlementAddresses.push(newFacilitator)
    await fundSettlementAccount(stack.info.rpcUrl, newFacilitator as `0x${string}`)
    await listSettlementKey(stack, newFacilitator, true)
    const newKeys = {
      settlement: settlementKey,
      challenge: newSecret(),
      receipts: `k2:${newSecret()}`,
      statements: `k2:${newSecret()}`,
    }
    const run = { stack, settings, operator, first, newRecipient, newKeys, newFacilitator, replace, phase }
    await giveNewKeyToSettlers(run)
    if (!options.isCareless) await acceptNewKeys(run)
    const acceptedForEarlierKeys = await useNewKeys(run)
    const inLastPhase = await removeEarlierKeys(run, () => load.stop())
    const records = stack.caller.records
    const receipts = await checkReceipts(stack, {
      k1: secretOf(first.receiptSecret),
      k2: secretOf(newKeys.receipts),
    })
    const { violations, stuckJobs, jobs, transfers } = await compareLedgers(
      stack,
      inLastPhase,
      (violation) => violation,
    )
    return {
      ...receipts,
      stuckJobs,
      jobs,
      transfers,
      calls: records.length,
      failed: records.filter(({ outcome }) => outcome !== 'released').map(describeCall),
      refusedPayments: refusalsOf(records),
      violations: violations.map(({ invariant, jobId, detail }) => `${invariant} ${jobId ?? ''} ${detail}`),
      callsWhileDrained: await countCallsSince(stack, drainedSince),
      acceptedForEarlierKeys,
      problems,
    }
  } finally {
    await operator.close()
    await stack.stop()
  }
}

async function publishAndDrain(stack: CampaignStack, operator: Operator, phase: Run['phase']): Promise<void> {
  const file = join(stack.directory, 'catalog.json')
  await writeFile(file, JSON.stringify(PRICES))
  await operator.run('catalog', 'publish', file)
  await phase('a catalog is published')
  await operator.run('deployments', 'drain', DRAINED)
  await untilReached('all workers have drained the deployment', async () => {
    const reports = await stack.sql<{ drained: boolean | null }>(
      `SELECT (report -> 'deployments' -> $1 ->> 'isDrained')::boolean AS drained FROM process_reports
       WHERE kind = 'worker' AND seen_at > now() - interval '10 seconds'`,
      [DRAINED],
    )
    return reports.length === WORKERS.length && reports.every(({ drained }) => drained === true)
  })
  await phase(`${DRAINED} is drained`)
}

/** Changes the settlement contract's list, as its owner. */
async function listSettlementKey({ info }: CampaignStack, key: string, isListed: boolean): Promise<void> {
  const { rpcUrl, payTo, settlementContract } = info
  if (!settlementContract) throw new Error('the stack has no settlement contract')
  await listKeys({ rpcUrl, contract: settlementContract, owner: payTo, keys: [key] }, isListed)
}

async function giveNewKeyToSettlers({ settings, first, newKeys, replace }: Run): Promise<void> {
  settings.change('worker', { SETTLEMENT_PRIVATE_KEYS: `${first.settlementKey},${newKeys.settlement}` })
  await replace(WORKERS)
}

/** First, every API accepts the new keys, and none uses them. */
async function acceptNewKeys({ settings, first, newRecipient, newKeys, ...run }: Run): Promise<void> {
  settings.change('api', {
    ACCEPTED_FACILITATOR_ADDRESSES: run.newFacilitator,
    PAY_TO: `${first.payTo},${newRecipient}`,
    CHALLENGE_SECRET: `${first.challengeSecret},${newKeys.challenge}`,
    RECEIPT_SECRETS: `${first.receiptSecret},${newKeys.receipts}`,
    RECEIPT_SIGNING_KEY: `${first.signingKey},${newKeys.statements}`,
  })
  await run.replace(APIS)
  await run.phase('all processes accept the new keys')
}

/** Then the new keys are used. Returns how many payments for the earlier ones were accepted afterwards. */
async function useNewKeys({ settings, first, newRecipient, newKeys, ...run }: Run): Promise<number> {
  const gate = Promise.withResolvers<void>()
  const early = run.stack.payers.approved
    .slice(0, 3)
    .map((payer) => run.stack.caller.start({ kind: 'chat', payer, gate: gate.promise }))
  await Promise.all(early.map(({ signed }) => signed))
  settings.change('api', {
    FACILITATOR_ADDRESSES: run.newFacilitator,
    ACCEPTED_FACILITATOR_ADDRESSES: first.settlementAddress,
    PAY_TO: `${newRecipient},${first.payTo}`,
    CHALLENGE_SECRET: `${newKeys.challenge},${first.challengeSecret}`,
    RECEIPT_SECRETS: `${newKeys.receipts},${first.receiptSecret}`,
    RECEIPT_SIGNING_KEY: `${newKeys.statements},${first.signingKey}`,
  })
  await run.replace(APIS)
  gate.resolve()
  const accepted = await countAcceptedAsSigned(early)
  settings.change('worker', { RECEIPT_SECRET_ID: 'k2' })
  await run.replace(WORKERS)
  await run.phase('all processes use the new keys')
  return accepted
}

/** Last, the earlier keys go, once the console shows that nothing needs them. Receipts keep the earlier secret. */
async function removeEarlierKeys(
  { stack, settings, operator, first, newRecipient, newKeys, replace, phase }: Run,
  stopLoad: () => Promise<readonly CallRecord[]>,
): Promise<readonly CallRecord[]> {
  const final = setInterval(() => void callRpc(stack.info.rpcUrl, 'anvil_mine', [BLOCKS_TO_FINALITY]), 1000)
  try {
    await setTimeout(CHALLENGE_LIFETIME_MS)
    await listSettlementKey(stack, first.settlementAddress, false)
    await operator.untilUnneeded(first.settlementAddress)
  } finally {
    clearInterval(final)
  }
  settings.change('api', {
    ACCEPTED_FACILITATOR_ADDRESSES: null,
    PAY_TO: newRecipient,
    CHALLENGE_SECRET: newKeys.challenge,
  })
  await replace(APIS)
  settings.change('worker', { SETTLEMENT_PRIVATE_KEYS: newKeys.settlement })
  await replace(WORKERS)
  const before = stack.caller.records.length
  await phase('the earlier keys are removed')
  await stopLoad()
  return stack.caller.records.slice(before)
}

/** Returns what the console shows as wrong, unless that is over with the next report of the processes. */
async function untilHarmless(operator: Operator): Promise<readonly string[]> {
  let problems: readonly string[] = []
  await untilReached('no problem is reported', async () => {
    problems = await operator.keyProblems()
    return problems.length === 0
  }).catch(() => undefined)
  return problems
}

async function countAcceptedAsSigned(calls: readonly StartedCall[]): Promise<number> {
  const records = await Promise.all(calls.map(({ finished }) => finished))
  return records.filter(({ outcome, nonces }) => outcome === 'released' && nonces.length === 1).length
}

function newSecret(): string {
  return randomBytes(32).toString('hex')
}

async function readClock(stack: CampaignStack): Promise<string> {
  const [row] = await stack.sql<{ now: string }>('SELECT now()::text AS now')
  return row?.now ?? ''
}

async function countCallsSince(stack: CampaignStack, since: string): Promise<number> {
  const [row] = await stack.sql<{ count: number }>(
    'SELECT count(*)::int AS count FROM upstream_attempts WHERE deployment = $1 AND started_at > $2::timestamptz',
    [DRAINED, since],
  )
  return row?.count ?? Number.NaN
}

function refusalsOf(records: readonly CallRecord[]): readonly string[] {
  return records.flatMap(({ callId, answers, nonces }) =>
    nonces.length > 1
      ? answers.flatMap(({ status, code }) => (status === 402 && code ? [`${callId} ${code}`] : []))
      : [],
  )
}

function describeCall({ callId, outcome, answers, problems }: CallRecord): string {
  const given = answers.map(({ status, code, bodyText }) => `${status} ${code ?? ''} ${status < 400 ? '' : bodyText}`)
  return `${callId} ${outcome}: ${[...given.slice(-3), ...problems].join(' | ')}`
}

function secretOf(named: string): string {
  return named.slice(named.indexOf(':') + 1)
}

export const HELP = `Usage: npm run campaign -- rotations [--callers 8] [--calls 40] [--careless]

Publishes a catalog, drains a deployment, and rotates settlement key, PAY_TO, challenge secret, receipt secret and
statement key by rolling restarts, as infra/keys.md says, while callers pay for calls of all kinds at two APIs and two
workers. No call may fail; every receipt is verified.

  --callers   concurrent callers
  --calls     calls that must finish in each phase
  --careless  skip the step in which all APIs accept the new keys: payments are refused, which shows that it matters`

/** Runs the command. Returns exit code 1 for a failed call, a wrong receipt or a violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      callers: { type: 'string', default: '8' },
      calls: { type: 'string', default: '40' },
      careless: { type: 'boolean', default: false },
    },
  })
  const report = await runRotations({
    callers: Number(values.callers),
    callsPerPhase: Number(values.calls),
    isCareless: values.careless,
    onProgress: (line) => console.log(line),
  })
  console.log(JSON.stringify(report, null, 2))
  const { failed, refusedPayments, violations, stuckJobs, problems, receiptProblems, callsWhileDrained } = report
  const wrong = [failed, refusedPayments, violations, stuckJobs, problems, receiptProblems].flat()
  return wrong.length + callsWhileDrained === 0 ? 0 : 1
}
