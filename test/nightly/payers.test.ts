import { describe, expect, test } from 'vitest'
import { runDuplicates } from '../resilience/duplicates.ts'
import { fuzzPayments } from '../resilience/fuzz/fuzz-payments.ts'
import { type Attack, runPayerAttacks } from '../resilience/payer-attacks.ts'
import { runOverdraft } from '../resilience/payer-overdraft.ts'
import { runQueueWipe } from '../resilience/queue-wipe.ts'
import { haveRedis } from '../support/processes/redis-server.ts'

const UNPAID = '402 settlement_failed (none)'
const REFUSALS: Readonly<Record<Attack, string>> = {
  'funds moved': '402 insufficient_funds (none)',
  'allowance revoked': '412 permit2_allowance_required (none)',
  'nonce burned': '402 payment_nonce_used (none)',
  // A wait for SDKs, which sign the next permit.
  'permit spent elsewhere': '409 permit_already_used (none)',
}
/** Fixed, so that test runs are reproducible; `npm run campaign -- fuzz` uses others. */
const SEED = 402
const RUNS = 300
/** `npm run campaign -- duplicates --rounds 1000` is the full run. */
const ROUNDS = 10
/** `npm run campaign -- queue-wipe --jobs 200` is the full run. */
const JOBS = 40

describe('payers who attack', () => {
  test('a payer who withdraws their money at any moment gets no result and costs at most one provider call', async () => {
    const rows = await runPayerAttacks()
    expect(rows).toHaveLength(16)
    expect(rows).toEqual(
      rows.map(({ moment, attack }) => {
        const isEarly = moment === 'before verify' || moment === 'before the provider call'
        const answer = isEarly ? REFUSALS[attack] : UNPAID
        const upstreamCalls = isEarly ? 0 : 1
        return { moment, attack, answer, repeated: answer, upstreamCalls, transfers: 0, released: false }
      }),
    )
  })

  test('50 concurrent calls of a wallet that can pay for ten start no work that it cannot pay for', async () => {
    const row = await runOverdraft('keeps its money')
    expect(row).toMatchObject({ calls: 50, withheld: 0, violations: [] })
    expect(row.charged).toBe(row.providerCalls)
    expect(row.providerCalls).toBeGreaterThanOrEqual(10)
    expect(row.answers).toEqual({ 200: row.providerCalls, '429 funds_reserved (none)': 50 - row.providerCalls })
  })

  test('a wallet that is emptied during its calls costs at most the open exposure limit, and must pay before new calls', async () => {
    const row = await runOverdraft('is emptied while its calls are at the provider', { limitUsdc: '0.02' })
    expect(row).toMatchObject({ calls: 50, charged: 0, violations: [] })
    expect(row.withheld).toBe(row.providerCalls)
    expect(row.withheld).toBeGreaterThanOrEqual(1)
    expect(row.begunAtomic).toBeLessThanOrEqual(20_000n)
    expect(row.debtor).toMatch(/^409 unpaid_debt \(none\) → \d+ × 200 → 200$/)
  })
})

describe('mutated payments', () => {
  test('rejects every mutated payment with a documented error, without a trace or an unexpected failure', async () => {
    const tally = await fuzzPayments({ runs: RUNS, seed: SEED })
    expect(Object.values(tally).reduce((sum, count) => sum + count, 0)).toBe(RUNS)
    // If all were rejected for one reason, the mutations would not reach the later checks.
    expect(Object.keys(tally)).toEqual(
      expect.arrayContaining([
        '400 invalid_payment_header',
        '402 payment_signature_invalid',
        '402 payment_terms_mismatch',
        '402 payment_amount_mismatch',
        '402 insufficient_funds',
      ]),
    )
  })
})

describe('duplicates of a call', () => {
  test('answers 20 simultaneous duplicates at two APIs from one provider call and one transfer', async () => {
    expect(await runDuplicates({ rounds: ROUNDS })).toMatchObject({
      rounds: ROUNDS,
      upstreamCalls: ROUNDS,
      transfers: ROUNDS,
      violations: [],
    })
  })
})

describe('a queue that is lost', () => {
  for (const queue of ['postgres', 'redis'] as const)
    test.skipIf(queue === 'redis' && !haveRedis())(
      `serves and charges every job once when the queue in ${queue} is lost while workers are busy`,
      async () => {
        const report = await runQueueWipe({ jobs: JOBS, workers: 'running', queue })
        expect(report).toMatchObject({ completed: JOBS, upstreamCalls: JOBS, transfers: JOBS, violations: [] })
        expect(report.unfinished).toBe(JOBS)
        expect(report.queued).toBeGreaterThan(0)
      },
    )
})
