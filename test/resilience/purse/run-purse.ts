import { setTimeout as delay } from 'node:timers/promises'
import { PATIENT_SETTINGS } from '../../support/patience.ts'
import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallRecord, Violation } from '../checker/ledgers.ts'
import { type CampaignStack, startCampaignStack } from '../stack/stack.ts'
import type { Attack, AttackContext } from './attack-calls.ts'
import { ATTACKS, STOLEN, VENDOR_RULES } from './attacks.ts'
import { type OperatorCost, readOperatorCost } from './costs.ts'
import { type HonestPhase, runHonestPayers } from './honest-payers.ts'
import { createWallets } from './wallets.ts'

export interface PurseOptions {
  /** Duration of the attack; the phase without it takes a quarter of that. */
  readonly seconds: number
  readonly attacks: readonly string[]
  readonly onProgress?: (line: string) => void
}

export interface PurseReport {
  readonly before: HonestPhase
  readonly during: HonestPhase
  /** What each attack met, with the number of times. */
  readonly attacks: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Atomic USDC that the attacker no longer has. */
  readonly attackerCost: bigint
  readonly operatorCost: OperatorCost
  /** What the settings allow for uncharged work. */
  readonly bound: bigint
  readonly violations: readonly string[]
}

const HONEST_PAYERS = 20
const ADDRESSES = 1000
const WALLETS = 100
const ATTACKER_ATOMIC = 20_000_000n
/** Calls after which a payer has settled more than one may cause uncharged. */
const CALLS_OF_ESTABLISHED = 11
/** So small that an attacker of some minutes meets them. */
const LIMITS_USDC = { payer: '0.02', newPayers: '0.3', open: '0.5' }

/** Runs every attack next to honest payers and compares what it cost the operator with the settings and the ledger. */
export async function runPurse({ seconds, attacks, onProgress = () => undefined }: PurseOptions): Promise<PurseReport> {
  const limits = {
    UNCHARGED_BUDGET_USDC: LIMITS_USDC.payer,
    NEW_PAYER_DAILY_LOSS_USDC: LIMITS_USDC.newPayers,
    MAXIMUM_OPEN_EXPOSURE_USDC: LIMITS_USDC.open,
  }
  const stack = await startCampaignStack({
    apis: 1,
    workers: 1,
    approvedPayers: HONEST_PAYERS,
    sponsoredPayers: 0,
    // The defaults of the service, but for limits that the attack can meet within minutes, and for times that a starved
    // machine exceeds without any attack.
    apiEnvironment: {
      ...limits,
      ...PATIENT_SETTINGS,
      REQUESTS_PER_MINUTE: '6000',
      HOLD_SECONDS: '60',
      MAXIMUM_QUEUE_AGE_SECONDS: '3600',
    },
    workerEnvironment: { ...limits, ...PATIENT_SETTINGS, LEASE_SECONDS: '60', PROVIDER_TIMEOUT_SECONDS: '60' },
  })
  try {
    const { info, payers } = stack
    await stack.setFaults(VENDOR_RULES)
    onProgress(`${HONEST_PAYERS} honest payers without an attack`)
    const quiet = AbortSignal.timeout((seconds * 1000) / 4)
    const before = await runHonestPayers(stack, payers.approved, quiet, CALLS_OF_ESTABLISHED)
    const wallets = await createWallets(info.rpcUrl, WALLETS, ATTACKER_ATOMIC)
    const records: CallRecord[] = []
    const context: AttackContext = {
      stack,
      wallets,
      addresses: ADDRESSES,
      records,
      baseUrl: info.baseUrl,
      rpcUrl: info.rpcUrl,
    }
    const ended = AbortSignal.timeout(seconds * 1000)
    onProgress(`${attacks.length} attacks for ${seconds} s`)
    const [during, ...tallies] = await Promise.all([
      runHonestPayers(stack, payers.approved, ended),
      ...attacks.map((name) => runAttack(context, name, ended)),
    ])
    onProgress('waiting until everything has ended')
    return await judge(stack, { before, during, tallies, records, wallets })
  } finally {
    await stack.stop()
  }
}

interface Tally {
  readonly name: string
  readonly outcomes: Readonly<Record<string, number>>
}

async function runAttack(context: AttackContext, name: string, signal: AbortSignal): Promise<Tally> {
  const attack: Attack | undefined = ATTACKS[name]
  if (!attack) throw new Error(`unknown attack: ${name}`)
  const outcomes: Record<string, number> = {}
  let turn = 0
  const attempt = async () => {
    while (!signal.aborted) {
      turn += 1
      const outcome = await attack.attempt(context, turn).catch((error: unknown) => `failed: ${String(error)}`)
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      await delay(attack.pauseMs)
    }
  }
  await Promise.all(Array.from({ length: attack.concurrent ?? 1 }, attempt))
  return { name, outcomes }
}

async function judge(
  stack: CampaignStack,
  found: {
    before: HonestPhase
    during: HonestPhase
    tallies: readonly Tally[]
    records: readonly CallRecord[]
    wallets: AttackContext['wallets']
  },
): Promise<PurseReport> {
  const { before, during, tallies, records, wallets } = found
  const stuck = await stack.settleDown()
  // An attacker hangs up when it likes; its calls have the answer that they have.
  for (const record of records) record.outcome ??= record.answers.at(-1)?.status === 200 ? 'released' : 'refused'
  const sources = stack.ledgerSources()
  const calls = [...sources.calls, ...records].map((call) => withoutReorganized(call, stack.reorganizedAt))
  const ledgers = await collect({ ...sources, calls, callsToReplay: sources.calls.slice(-HONEST_PAYERS) })
  const operatorCost = await readOperatorCost(stack, ledgers)
  const bound = await readBound(stack)
  const { vendorLedger, rejectedLedger, revertedGasLedger, owed } = operatorCost
  const total = vendorLedger + rejectedLedger + revertedGasLedger + owed
  const refusals = [...before.refusals, ...during.refusals]
  const idle = tallies.filter(({ outcomes }) =>
    Object.keys(outcomes).every((outcome) => outcome.startsWith('failed: ')),
  )
  const stolen = tallies.flatMap(({ name, outcomes }) => (STOLEN in outcomes ? [`${name}: ${STOLEN}`] : []))
  return {
    before,
    during,
    attacks: Object.fromEntries(tallies.map(({ name, outcomes }) => [name, outcomes])),
    attackerCost: ATTACKER_ATOMIC - (await wallets.total()),
    operatorCost,
    bound,
    violations: [
      ...check(ledgers).map(({ invariant, detail }: Violation) => `${invariant}: ${detail}`),
      ...stuck.map((id) => `job ${id} never ended`),
      ...refusals.map((refusal) => `an honest payer was refused: ${refusal}`),
      ...stolen,
      ...idle.map(({ name, outcomes }) => `the attack "${name}" was never made: ${Object.keys(outcomes)[0]}`),
      ...operatorCost.uncountedJobs.map((id) => `the uncharged work of job ${id} is not in the ledger`),
      ...operatorCost.inventedJobs.map((id) => `the ledger counts vendor work of job ${id}, which no vendor did`),
      ...(vendorLedger > operatorCost.vendorOutside
        ? [`the ledger counts ${operatorCost.vendorLedger} for vendor work of at most ${operatorCost.vendorOutside}`]
        : []),
      ...(total > bound ? [`uncharged and owed work of ${total} beyond ${bound}`] : []),
      ...(operatorCost.lonePermits > 0 ? [`${operatorCost.lonePermits} permits were sent without a charge`] : []),
    ],
  }
}

/** A client looks for the transaction of a result this long after it was proven, on a starved machine. */
const LOOK_UP_MS = 10_000

/** Forgets whether a transaction was mined when the block that proved it may have been replaced since. */
function withoutReorganized(call: CallRecord, reorganizedAt: readonly number[]): CallRecord {
  const isDoubtful = (receivedAt: number) => reorganizedAt.some((at) => Math.abs(receivedAt - at) < LOOK_UP_MS)
  const answers = call.answers.map((answer) => (isDoubtful(answer.receivedAt) ? { ...answer, wasMined: null } : answer))
  return { ...call, answers }
}

/**
 * Returns the most that the settings allow to be uncharged or owed: what new payers share, and for each payer who has
 * paid as much as one may cause, that budget, what was paid, and twice the limit of open work.
 */
async function readBound(stack: CampaignStack): Promise<bigint> {
  const { payer, newPayers, open } = LIMITS_USDC
  const [row] = await stack.sql<{ bound: string }>(
    `SELECT ($1::numeric * 1000000 + coalesce(sum(($2::numeric + 2 * $3::numeric) * 1000000 + paid), 0))::numeric(78,0) AS bound
     FROM (SELECT sum(charge_amount) AS paid FROM settlements WHERE state = 'confirmed' GROUP BY payer) AS payers
     WHERE paid >= $2::numeric * 1000000`,
    [newPayers, payer, open],
  )
  return BigInt(row?.bound ?? 0)
}
