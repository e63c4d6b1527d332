import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Budget } from '../../../../client/budget/budget.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import { openJournal } from '../../../../client/journal/open-journal.ts'
import { readChallenge } from '../../../../client/payment/challenge.ts'
import { openPins } from '../../../../client/payment/pins.ts'
import { challengeHeader } from '../../../unit/client/payment/scripted-service.ts'

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-journal-'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

const signed = (key: string, maximum = '5034') => ({
  phase: 'signed' as const,
  key,
  maximum,
  deadline: new Date(Date.now() + 600_000).toISOString(),
  payment: 'payment',
})
const files = async () => (await readdir(join(home, 'journal'))).filter((file) => file.endsWith('.ndjson'))

describe('the journal on disk', () => {
  it('a process reads what an earlier one wrote, whether it was closed or killed', async () => {
    const closed = openJournal(home)
    closed.append(signed('closed'))
    await closed.close()
    const killed = openJournal(home)
    killed.append(signed('killed'))
    await killed.flush()
    const { attempts } = openJournal(home)
    expect(attempts.get('closed')).toMatchObject({ phase: 'signed', payment: 'payment', open: { maximum: 5034n } })
    expect(attempts.get('killed')).toMatchObject({ phase: 'signed' })
  })

  it('a line that was cut off is ignored, and completed lines are read later', async () => {
    const writer = openJournal(home)
    writer.append(signed('whole'))
    await writer.flush()
    const [file = ''] = await files()
    const path = join(home, 'journal', file)
    const line = (await readFile(path, 'utf8')).replace('whole', 'late')
    await appendFile(path, line.slice(0, 40))
    const reader = openJournal(home)
    expect([...reader.attempts.all()].map(({ key }) => key)).toEqual(['whole'])
    await appendFile(path, line.slice(40))
    reader.refresh()
    expect([...reader.attempts.all()].map(({ key }) => key)).toEqual(['whole', 'late'])
  })

  it('entries of another running process are read, also after it has closed its file', async () => {
    const [one, other] = [openJournal(home), openJournal(home)]
    one.append(signed('a'))
    other.refresh()
    expect(other.attempts.get('a')?.phase).toBe('signed')
    one.append({ phase: 'refused', key: 'a', status: 503, code: 'x' })
    await one.close()
    other.refresh()
    expect(other.attempts.get('a')).toMatchObject({ phase: 'refused', open: null })
  })

  it('only the owner may read the journal', async () => {
    const journal = openJournal(home)
    journal.append(signed('a'))
    const [file = ''] = await files()
    expect((await stat(join(home, 'journal', file))).mode & 0o777).toBe(0o600)
    expect((await stat(join(home, 'journal'))).mode & 0o777).toBe(0o700)
  })

  it('a journal that cannot be written is an error before anything is signed', async () => {
    await writeFile(join(home, 'file'), '')
    expect(() => openJournal(join(home, 'file'))).toThrow(
      expect.objectContaining({ code: 'journal_unwritable', money: 'none' }),
    )
    const closed = openJournal(home)
    await closed.close()
    expect(() => closed.append(signed('a'))).toThrow(expect.objectContaining({ code: 'journal_unwritable' }))
  })

  it('two processes with one journal never exceed the budget of the day', async () => {
    const [one, other] = [
      new Budget({ day: '0.01' }, openJournal(home)),
      new Budget({ day: '0.01' }, openJournal(home)),
    ]
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? one : other).reserve(`k${index}`, 1000n)),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
    const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(reasons.every((reason) => reason instanceof BudgetExceeded)).toBe(true)
  })

  it('what runs exclusively for one journal waits for the others of the directory', async () => {
    const steps: string[] = []
    const work = (name: string) => async () => {
      steps.push(name)
      // Long enough for another lock to be taken, were this one not held.
      await setTimeout(200)
      steps.push(name)
    }
    await Promise.all([openJournal(home).exclusively(work('a')), openJournal(home).exclusively(work('b'))])
    expect(steps[0]).toBe(steps[1])
    expect(steps[2]).toBe(steps[3])
    expect(steps).toHaveLength(4)
  })

  it('terms are pinned at first use for all processes, and pins that cannot be read are not replaced', async () => {
    const first = openPins(openJournal(home), {})
    const second = openPins(openJournal(home), {})
    await first.pin('https://a.example', readChallenge(challengeHeader()))
    await second.pin('https://a.example', readChallenge(challengeHeader({ payTo: `0x${'9'.repeat(40)}` })))
    expect(second.termsOf('https://a.example').payTo).toBe(`0x${'1'.repeat(40)}`)
    expect(openPins(openJournal(home), {}).termsOf('https://a.example').payTo).toBe(`0x${'1'.repeat(40)}`)
    await writeFile(join(home, 'pins.json'), '{')
    expect(() => openPins(openJournal(home), {})).toThrow(expect.objectContaining({ code: 'pins_unreadable' }))
  })
})
