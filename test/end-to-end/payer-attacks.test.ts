import { expect, test } from 'vitest'
import { type Moment, runPayerAttacks } from '../campaigns/payer-attacks.ts'
import { runOverdraft } from '../campaigns/payer-overdraft.ts'

const UNPAID = '402 settlement_failed (none)'

test('a payer who takes his money back at any moment gets no result, and costs at most one provider call', async () => {
  const rows = await runPayerAttacks()
  const expected = (moment: Moment, early: readonly string[]) =>
    early.map((code) => {
      const isEarly = moment === 'before verify' || moment === 'before the provider call'
      const answer = isEarly ? code : UNPAID
      return { moment, answer, repeated: answer, upstreamCalls: isEarly ? 0 : 1, transfers: 0, released: false }
    })
  const refusals = [
    '402 insufficient_funds (none)',
    '412 permit2_allowance_required (none)',
    '402 payment_nonce_used (none)',
    '402 payment_rejected (none)',
  ]
  expect(rows.map(({ attack: _, ...row }) => row)).toEqual([
    ...expected('before verify', refusals),
    ...expected('before the provider call', refusals),
    ...expected('before the settlement', refusals),
    ...expected('in the mempool, with a higher tip', refusals),
  ])
})

test('50 parallel calls of a wallet that can pay for ten begin no work that it cannot pay for', async () => {
  const row = await runOverdraft('keeps its money')
  expect(row).toMatchObject({ calls: 50, withheld: 0, violations: [] })
  expect(row.charged).toBe(row.providerCalls)
  expect(row.providerCalls).toBeGreaterThanOrEqual(10)
  expect(row.answers['429 funds_reserved (none)']).toBe(50 - row.providerCalls)
})

test('a wallet that is emptied under its calls costs no more than the open limit, and gets nothing new until it has paid', async () => {
  const row = await runOverdraft('is emptied while its calls are at the provider', { limitUsdc: '0.02' })
  expect(row).toMatchObject({ calls: 50, charged: 0, violations: [] })
  expect(row.withheld).toBe(row.providerCalls)
  expect(row.withheld).toBeGreaterThanOrEqual(1)
  expect(row.begunAtomic).toBeLessThanOrEqual(20_000n)
  expect(row.debtor).toMatch(/^409 unpaid_debt \(none\) → \d+ × 200 → 200$/)
})
