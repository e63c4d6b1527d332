import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Budget } from '../../../../client/budget/budget.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import type { Journal } from '../../../../client/journal/journal.ts'
import { mergeFiles } from '../../../../client/journal/merge-files.ts'
import { openJournal } from '../../../../client/journal/open-journal.ts'

const LIMITS = { day: '1', groups: { chat: { day: '0.01' }, speak: { day: '0.02' } } }
const ALWAYS = { files: 1, bytes: 0 }
const HOUR_MS = 3_600_000

let home: string
const opened: Journal[] = []
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-journal-'))
})
afterEach(async () => {
  for (const journal of opened.splice(0)) await journal.close()
  await rm(home, { recursive: true, force: true })
})

function open() {
  const journal = openJournal(home)
  opened.push(journal)
  return { journal, budget: new Budget(LIMITS, journal) }
}

const signed = (key: string, maximum: string) => ({
  phase: 'signed' as const,
  key,
  maximum,
  deadline: new Date(Date.now() + HOUR_MS).toISOString(),
  payment: 'payment',
})
const answered = (key: string, charge: string, maximum: string, group: string) => ({
  phase: 'answered' as const,
  key,
  charge,
  transaction: '0xaa',
  receiptId: `receipt of ${key}`,
  receiptToken: 'token',
  maximum,
  group,
})

describe('groups of the budget in a journal', () => {
  it('two processes never exceed the day of a group together', async () => {
    const processes = [open(), open()].map(({ budget }) => budget)
    const outcomes = await Promise.allSettled(
      Array.from({ length: 80 }, (_, index) => {
        const group = index % 4 < 2 ? 'chat' : 'speak'
        return (processes[index % 2] as Budget).reserve(`k${index}`, 1000n, group)
      }),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(30)
    const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(reasons.every((reason) => reason instanceof BudgetExceeded)).toBe(true)
  })

  it.each([false, true])(
    'a later process counts charges and open payments of a group (journal merged: %s)',
    async (isMerged) => {
      const { journal, budget } = open()
      await budget.reserve('paid', 6000n, 'chat')
      journal.append(signed('paid', '6000'), answered('paid', '4000', '6000', 'chat'))
      await budget.reserve('lost', 3000n, 'chat')
      journal.append(signed('lost', '3000'))
      await budget.reserve('refused', 2000n, 'chat')
      journal.append({ phase: 'refused', key: 'refused', status: 503, code: 'provider_unavailable' })
      await journal.close()
      if (isMerged) await mergeFiles(join(home, 'journal'), ALWAYS)
      const later = open().budget
      expect([later.left('chat').day, later.left('speak').day, later.left().day]).toEqual([3000n, 20_000n, 993_000n])
      await expect(later.reserve('more', 3001n, 'chat')).rejects.toMatchObject({ limit: 'day', group: 'chat' })
      await later.reserve('fits', 3000n, 'chat')
    },
  )
})
