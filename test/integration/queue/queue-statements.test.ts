import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { startPostgresCounter } from '../../bench/measuring/postgres-counter.ts'
import { createTestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

it('never asks PostgreSQL for delayed messages or rate limits', async () => {
  const ledger = await createTestLedger(2)
  const counter = await startPostgresCounter(ledger.url)
  const queue = await openJobQueue({ DATABASE_URL: counter.url, QUEUE_PREFIX: '{farebox-test}' }, () => undefined)
  const delivered: string[] = []
  const consumer = queue.consume(new Map([['text', 4]]), async (jobId) => {
    delivered.push(jobId)
  })
  try {
    const jobIds = [randomUUID(), randomUUID()]
    for (const jobId of jobIds) {
      await queue.enqueue(jobId, 'text')
      await expect.poll(() => delivered).toContain(jobId)
    }
    const seen = new Set<string>()
    const statements = () => {
      for (const statement of counter.take().keys()) seen.add(statement)
      return [...seen].join('\n')
    }
    await expect.poll(statements).toContain('move_to_active')
    await expect.poll(statements).toContain('move_to_completed_fetch')
    // After the last message the worker fetches once more and then waits.
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(statements()).not.toMatch(/next_signal|next_delay/)
  } finally {
    await consumer.close(PATIENCE_MS)
    await queue.close()
    await counter.stop()
    await ledger.close()
  }
})
