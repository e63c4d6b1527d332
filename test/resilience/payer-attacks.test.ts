import { expect, test } from 'vitest'
import { type Attack, runPayerAttacks } from './payer-attacks.ts'
import { runOverdraft } from './payer-overdraft.ts'

const UNPAID = '402 settlement_failed (none)'

const REFUSALS: Readonly<Record<Attack, string>> = {
  'funds moved': '402 insufficient_funds (none)',
  'allowance revoked': '412 permit2_allowance_required (none)',
  'nonce burned': '402 payment_nonce_used (none)',
  // A wait for SDKs, which sign the next permit.
  'permit spent elsewhere': '409 permit_already_used (none)',
}

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
