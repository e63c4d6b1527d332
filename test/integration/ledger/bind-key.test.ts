import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { NewJob } from '#shared/jobs/job-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import {
  acceptTestJob,
  bindTestKey,
  createTestLedger,
  newTestJob,
  type TestJob,
  type TestLedger,
} from '../../support/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

function requests(changes: Partial<TestJob> = {}): { first: NewJob; dearer: NewJob; other: NewJob } {
  const first = newTestJob(changes)
  return {
    first,
    dearer: {
      ...first,
      quote: { ...first.quote, quotedMaximum: atomicAmount(9999n), catalogVersion: 'catalog-later' },
    },
    other: { ...first, requestDigest: 'f'.repeat(64) },
  }
}

async function expire({ idempotencyKey }: NewJob): Promise<void> {
  await ledger.sql("UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE idempotency_key = $1", [
    idempotencyKey,
  ])
}

describe('a bound key', () => {
  it('keeps its first quote while the challenge lives, whatever the catalog says later', async () => {
    const { first, dearer } = requests()
    await bindTestKey(ledger, first)
    expect(await bindTestKey(ledger, dearer)).toMatchObject({ outcome: 'bound', quote: first.quote })
  })

  it('takes the present quote once the challenge has expired', async () => {
    const { first, dearer } = requests()
    await bindTestKey(ledger, first)
    await expire(first)
    expect(await bindTestKey(ledger, dearer)).toMatchObject({ outcome: 'bound', quote: dearer.quote })
  })

  it('is refused to another request, and that changes nothing', async () => {
    const { first, other } = requests()
    await bindTestKey(ledger, first)
    const before = await ledger.fingerprint()
    expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
    expect(await ledger.fingerprint()).toBe(before)
  })

  it('is free for another request once the challenge has expired without a job', async () => {
    const { first, other } = requests()
    await bindTestKey(ledger, first)
    await expire(first)
    expect(await bindTestKey(ledger, other)).toMatchObject({ outcome: 'bound' })
    expect(await bindTestKey(ledger, first)).toEqual({ outcome: 'other_request' })
  })

  it('stays bound for good once it has a job', async () => {
    const { first, other } = requests()
    await acceptTestJob(ledger, first)
    await expire(first)
    expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
    expect(await bindTestKey(ledger, first)).toMatchObject({ outcome: 'bound' })
  })

  it('expires its lifetime after the latest challenge, by the clock of PostgreSQL', async () => {
    const { first } = requests()
    const binding = await bindTestKey(ledger, first, 120)
    const [clock] = await ledger.sql<{ now: Date }>('SELECT now()')
    const remaining = binding.outcome === 'bound' ? binding.expiresAt.getTime() - (clock?.now.getTime() ?? 0) : 0
    expect(remaining).toBeGreaterThan(110_000)
    expect(remaining).toBeLessThanOrEqual(120_000)
  })
})

it('twenty simultaneous different requests bind one key for exactly one of them', async () => {
  const idempotencyKey = randomUUID()
  const bindings = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      bindTestKey(ledger, newTestJob({ idempotencyKey, requestDigest: String(index).padStart(64, '0') })),
    ),
  )
  expect(bindings.filter(({ outcome }) => outcome === 'bound')).toHaveLength(1)
})

it('twenty simultaneous identical requests are all given the same quote and expiry', async () => {
  const job = newTestJob()
  const bindings = await Promise.all(Array.from({ length: 20 }, () => bindTestKey(ledger, job)))
  expect(bindings.every((binding) => binding.outcome === 'bound')).toBe(true)
  expect(
    await ledger.sql('SELECT idempotency_key FROM idempotency_keys WHERE idempotency_key = $1', [job.idempotencyKey]),
  ).toHaveLength(1)
})
