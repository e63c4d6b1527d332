import { describe, expect, test } from 'vitest'
import { selectPoints } from '../resilience/kill-matrix/fault-points.ts'
import { runMatrix } from '../resilience/kill-matrix/run-matrix.ts'
import { failuresOf, summarize } from '../resilience/kill-matrix/summarize.ts'
import { runMutations } from '../resilience/mutations.ts'
import { mutations } from '../resilience/mutations/mutation-list.ts'
import { failuresOf as failuresOfTrials } from '../resilience/nemesis.ts'
import { FAULT_KINDS } from '../resilience/nemesis/faults.ts'
import { runNemesis, trialSeeds } from '../resilience/nemesis/run-nemesis.ts'
import { ATTACKS } from '../resilience/purse/attacks.ts'
import { runPurse } from '../resilience/purse/run-purse.ts'
import { runRestore } from '../resilience/restore.ts'
import { haveS3 } from '../support/processes/s3-server.ts'

/** Every other point, to keep the test short; `npm run campaign -- kill-matrix` runs all, many times. */
const points = selectPoints('quick').filter((_, index) => index % 2 === 0)
/** Quick seeds; `npm run campaign -- nemesis` draws more. */
const TRIALS = 8
/** `npm run campaign -- restore --calls 200` is the full run. */
const CALLS = 30
/** One safeguard of the database and one of the code; `npm run campaign -- mutations` removes each of them. */
const QUICK = [
  'a payment nonce can be claimed twice (one_claim_per_nonce)',
  'sealing a result does not erase the key of its upload',
]

describe('a process killed at any point', () => {
  test('charges at most once and loses no charged result when a process is killed at any point of a paid call', async () => {
    expect(points.length).toBeGreaterThanOrEqual(12)
    const report = await runMatrix({
      points,
      trials: 1,
      seed: 1,
      stacks: 1,
      checkEvery: points.length,
      atOnce: 12,
      stack: { approvedPayers: 4, sponsoredPayers: 2, on: haveS3() ? ['s3'] : [] },
    })
    expect(failuresOf(report)).toEqual([])
    expect(summarize(report).map(({ hits }) => hits)).toEqual(points.map(() => 1))
    // Without paid calls there would be no violation either.
    expect(report.transfers).toBeGreaterThanOrEqual(points.length)
  })
})

describe('random faults', () => {
  test('keeps the five ledgers consistent and answers every client under random faults', async () => {
    const report = await runNemesis({
      seeds: trialSeeds(20_261_121, TRIALS),
      kinds: FAULT_KINDS,
      stacks: 1,
      atOnce: 5,
      checkEvery: TRIALS,
      stack: { approvedPayers: 4, sponsoredPayers: 2 },
    })
    expect(failuresOfTrials(report)).toEqual([])
    expect(report.trials).toHaveLength(TRIALS)
    // Faults may cost some calls their result, but not many.
    expect(report.transfers).toBeGreaterThan(TRIALS)
  })
})

describe('attackers next to honest payers', () => {
  test('bounds what attackers cost the operator and refuses no honest payer', async () => {
    const report = await runPurse({ seconds: 30, attacks: Object.keys(ATTACKS) })
    expect(report.violations).toEqual([])
    expect(report.during.calls).toBeGreaterThan(0)
    // Every attack was tried.
    const untried = Object.entries(report.attacks).filter(([, outcomes]) => Object.keys(outcomes).length === 0)
    expect(untried).toEqual([])
  })
})

describe('a restored backup', () => {
  test('charges nobody twice, and tells nobody that nothing was charged, after a restore from a backup', async () => {
    const report = await runRestore({ calls: CALLS })
    expect(report).toMatchObject({ settledBefore: CALLS, chargedTwice: [], toldNone: [], violations: [] })
    // The calls after the backup are lost at least.
    expect(report.lost).toBeGreaterThanOrEqual(CALLS / 3)
  })
})

describe('removed safeguards', () => {
  test('the checker reports every removed safeguard, and nothing while all are in place', async () => {
    const outcomes = await runMutations(mutations.filter(({ name }) => QUICK.includes(name)))
    expect(outcomes.map(({ mutation, sound, isProven }) => [mutation.name, sound.violations, isProven])).toEqual(
      QUICK.map((name) => [name, [], true]),
    )
  })
})
