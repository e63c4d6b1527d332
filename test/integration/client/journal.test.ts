import { execFile } from 'node:child_process'
import {
  appendFile,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { BudgetExceeded } from '../../../client/budget/budget-exceeded.ts'
import { Budget } from '../../../client/budget/budget.ts'
import type { Journal } from '../../../client/journal/journal.ts'
import { withLock } from '../../../client/journal/lock.ts'
import { mergeFiles } from '../../../client/journal/merge-files.ts'
import { OtherFiles, openJournal, openTidyJournal } from '../../../client/journal/open-journal.ts'
import { readChallenge } from '../../../client/payment/challenge.ts'
import { openPins } from '../../../client/payment/pins.ts'
import { challengeHeader } from '../../support/client/scripted-service.ts'

const ALWAYS = { files: 1, bytes: 0 }
const HOUR_MS = 3_600_000
const PAYMENT = 'p'.repeat(3000)
const intended = (key: string) => ({
  phase: 'intended' as const,
  key,
  origin: 'http://localhost',
  method: 'POST',
  path: '/v1/messages',
  identity: key,
  purpose: 'test',
  payer: '0x1',
})
const stateOf = ({ attempts }: Journal) =>
  [...attempts.all()].map((attempt) => ({ ...attempt, refused: null })).sort((a, b) => (a.key < b.key ? -1 : 1))
const PROGRAM = fileURLToPath(new URL('../../support/client/full-disk-program.ts', import.meta.url))
interface Outcome {
  readonly outcome: string
  readonly payments: number
}
const LIMITS = { day: '1', groups: { chat: { day: '0.01' }, speak: { day: '0.02' } } }
const opened: Journal[] = []

const answeredEarlier = (key: string) => ({
  phase: 'answered' as const,
  key,
  charge: '5034',
  transaction: '0xaa',
  receiptId: `receipt of ${key}`,
  receiptToken: 'token',
  maximum: '5034',
})

const signedEarlier = (key: string) => ({
  phase: 'signed' as const,
  key,
  maximum: '5034',
  deadline: new Date(Date.now() - HOUR_MS).toISOString(),
  payment: PAYMENT,
})

describe('merging the files of a journal', () => {
  let home: string
  let directory: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-journal-'))
    directory = join(home, 'journal')
  })

  afterEach(() => rm(home, { recursive: true, force: true }))

  const files = async () => (await readdir(directory)).filter((file) => file.endsWith('ndjson')).sort()
  /** Journals one finished and one open call in a process that ends. */
  async function runProcess(name: string): Promise<void> {
    const journal = openJournal(home)
    journal.append(
      intended(name),
      signedEarlier(name),
      answeredEarlier(name),
      intended(`${name} open`),
      signedEarlier(`${name} open`),
    )
    await journal.flush()
    // Closed without merging, as by a process that did not come to it.
    await journal.close()
  }
  /** Puts a live file of a process that was killed some time ago into the journal. */
  async function leaveLiveFile(agoMs: number): Promise<void> {
    const file = (await files()).find((each) => !each.includes('.live.')) ?? ''
    const dead = file.replace(/-\d+-([0-9a-f]{8})\.ndjson$/, '-4194303-$1.live.ndjson')
    await rename(join(directory, file), join(directory, dead))
    const time = new Date(Date.now() - agoMs)
    await utimes(join(directory, dead), time, time)
  }
  describe('merging the files of ended processes', () => {
    it('everything that is known of each call is the same before and after, in one file without spent payments', async () => {
      for (const name of ['a', 'b', 'c']) await runProcess(name)
      const before = stateOf(openJournal(home))
      await mergeFiles(directory, ALWAYS)
      const [merged = '', ...others] = await files()
      expect(others).toEqual([])
      expect(merged).toMatch(/\.merged\.ndjson$/)
      expect(stateOf(openJournal(home))).toEqual(before)
      const reader = new OtherFiles(directory, 'reader')
      const [entry] = reader.read()
      expect(reader.isFinished(entry?.writer ?? '')).toBe(true)
      const text = await readFile(join(directory, merged), 'utf8')
      expect(text.split(PAYMENT)).toHaveLength(1 + 3)
    })

    it('merged files are merged again when there are many', async () => {
      for (let process = 0; process < 12; process += 1) {
        await runProcess(`call ${process}`)
        await mergeFiles(directory, ALWAYS)
      }
      expect((await files()).length).toBeLessThanOrEqual(8)
      expect(stateOf(openJournal(home))).toHaveLength(24)
    })

    it('a process that has read a part of a file finds the rest of it after the merge, and nothing twice', async () => {
      const writer = openJournal(home)
      writer.append(intended('a'), signedEarlier('a'))
      const reader = openJournal(home)
      expect(reader.attempts.get('a')?.open?.maximum).toBe(5034n)
      writer.append(answeredEarlier('a'), intended('b'), signedEarlier('b'))
      await writer.close()
      await mergeFiles(directory, ALWAYS)
      const listened: string[] = []
      reader.attempts.subscribe(({ key, phase }) => listened.push(`${key} ${phase}`))
      reader.refresh()
      reader.refresh()
      expect(listened).toEqual(['a signed', 'a answered', 'b intended', 'b signed'])
      expect(stateOf(reader)).toEqual(stateOf(openJournal(home)))
    })

    it('a crash between the merge and the removal of the files counts nothing twice', async () => {
      await runProcess('a')
      const [file = ''] = await files()
      await copyFile(join(directory, file), join(home, 'copy'))
      await mergeFiles(directory, ALWAYS)
      await copyFile(join(home, 'copy'), join(directory, file))
      const others = new OtherFiles(directory, 'reader')
      const read = others.read().map(({ line, entry: { key, phase } }) => `${line} ${key} ${phase}`)
      expect(new Set(read).size).toBe(read.length)
      expect(others.isFinished(file.replace('.ndjson', ''))).toBe(true)
      await mergeFiles(directory, ALWAYS)
      expect(openJournal(home).attempts.get('a')?.charged).toBe(5034n)
    })

    it('the file of a running process is left alone, and so is that of one that was killed lately', async () => {
      const running = openJournal(home)
      running.append(signedEarlier('running'))
      const [own = ''] = await files()
      // It has not written for long.
      await utimes(join(directory, own), new Date(0), new Date(0))
      await runProcess('killed')
      await leaveLiveFile(HOUR_MS / 2)
      await mergeFiles(directory, ALWAYS)
      expect(await files()).toHaveLength(2)
      expect((await files()).every((file) => file.endsWith('.live.ndjson'))).toBe(true)
      await running.close()
    })

    it('the file of a process that was killed long ago is merged', async () => {
      await runProcess('killed')
      await leaveLiveFile(2 * HOUR_MS)
      await mergeFiles(directory, ALWAYS)
      expect(await files()).toEqual([expect.stringMatching(/\.merged\.ndjson$/)])
      expect(openJournal(home).attempts.get('killed')?.charged).toBe(5034n)
    })

    it('two processes that merge at the same time lose nothing', async () => {
      for (const name of ['a', 'b', 'c', 'd']) await runProcess(name)
      const before = stateOf(openJournal(home))
      await Promise.all([mergeFiles(directory, ALWAYS), mergeFiles(directory, ALWAYS)])
      expect(stateOf(openJournal(home))).toEqual(before)
    })

    it('a file that is no journal file is left alone', async () => {
      await runProcess('a')
      await writeFile(join(directory, 'note.txt'), 'mine')
      await mergeFiles(directory, ALWAYS)
      expect(await readFile(join(directory, 'note.txt'), 'utf8')).toBe('mine')
    })

    it('a journal of many small files becomes one when it is opened, and when a process ends', async () => {
      await mkdir(directory)
      for (let process = 0; process < 70; process += 1) {
        const entry = { ...intended(`call ${process}`), at: new Date().toISOString() }
        const name = `2026-11-01T00-00-00-000Z-00000000-1-${process.toString(16).padStart(8, '0')}.ndjson`
        await writeFile(join(directory, name), `${JSON.stringify(entry)}\n`)
      }
      const journal = await openTidyJournal(home)
      expect(await files()).toHaveLength(1)
      expect(stateOf(journal)).toHaveLength(70)
      for (let process = 0; process < 16; process += 1) await runProcess(`ended ${process}`)
      expect((await files()).filter((file) => !file.includes('.merged.')).length).toBeLessThan(16)
    })
  })

  describe('reading what other processes wrote', () => {
    it('a finished file is read once', async () => {
      await runProcess('a')
      const reader = openJournal(home)
      const [file = ''] = await files()
      await writeFile(
        join(directory, file),
        `${JSON.stringify({ ...signedEarlier('late'), at: new Date().toISOString() })}\n`,
      )
      reader.refresh()
      expect(reader.attempts.get('late')).toBeUndefined()
    })

    it('a line longer than the reading buffer is read whole', async () => {
      const journal = openJournal(home)
      const payment = 'x'.repeat(3 << 20)
      journal.append({ ...signedEarlier('long'), payment }, signedEarlier('next'))
      await journal.close()
      const { attempts } = openJournal(home)
      expect(attempts.get('long')?.payment).toBe(payment)
      expect(attempts.get('next')?.phase).toBe('signed')
    })
  })
})

const signedNow = (key: string, maximum = '5034') => ({
  phase: 'signed' as const,
  key,
  maximum,
  deadline: new Date(Date.now() + 600_000).toISOString(),
  payment: 'payment',
})

describe('the journal on disk', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-journal-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))
  const files = async () => (await readdir(join(home, 'journal'))).filter((file) => file.endsWith('.ndjson'))

  it('a process reads what an earlier one wrote, whether it was closed or killed', async () => {
    const closed = openJournal(home)
    closed.append(signedNow('closed'))
    await closed.close()
    const killed = openJournal(home)
    killed.append(signedNow('killed'))
    await killed.flush()
    const { attempts } = openJournal(home)
    expect(attempts.get('closed')).toMatchObject({ phase: 'signed', payment: 'payment', open: { maximum: 5034n } })
    expect(attempts.get('killed')).toMatchObject({ phase: 'signed' })
  })

  it('a line that was cut off is ignored, and completed lines are read later', async () => {
    const writer = openJournal(home)
    writer.append(signedNow('whole'))
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
    one.append(signedNow('a'))
    other.refresh()
    expect(other.attempts.get('a')?.phase).toBe('signed')
    one.append({ phase: 'refused', key: 'a', status: 503, code: 'x' })
    await one.close()
    other.refresh()
    expect(other.attempts.get('a')).toMatchObject({ phase: 'refused', open: null })
  })

  it('a call of another client in the same process is under way until that is closed', async () => {
    const one = openJournal(home)
    one.append(intended('under way'))
    const other = openJournal(home)
    const writer = other.attempts.get('under way')?.writer ?? ''
    expect(other.isWrittenElsewhere(writer)).toBe(true)
    await one.close()
    other.refresh()
    expect(other.isWrittenElsewhere(writer)).toBe(false)
    await other.close()
  })

  it('only the owner may read the journal', async () => {
    const journal = openJournal(home)
    journal.append(signedNow('a'))
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
    expect(() => closed.append(signedNow('a'))).toThrow(expect.objectContaining({ code: 'journal_unwritable' }))
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

describe('the lock of a journal', () => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-lock-'))
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))
  const lockFile = () => join(directory, 'journal.lock')

  it('a lock that a killed process has left is taken over', async () => {
    await mkdir(lockFile())
    const longAgo = new Date(Date.now() - 60_000)
    await utimes(lockFile(), longAgo, longAgo)
    expect(await withLock(directory, () => 'done')).toBe('done')
  })

  it('what was done under a lock that another process took over is an error', async () => {
    const lost = withLock(directory, async () => {
      await rm(lockFile(), { recursive: true })
      // Keeps the lock's number from being used again.
      await mkdir(join(directory, 'other'))
      await mkdir(lockFile())
    })
    await expect(lost).rejects.toMatchObject({ code: 'journal_locked', money: 'none' })
    expect(await readdir(directory)).toContain('journal.lock')
  })

  it('work that fails releases the lock', async () => {
    const failing = withLock(directory, () => {
      throw new Error('broken')
    })
    await expect(failing).rejects.toThrow('broken')
    expect(await withLock(directory, () => 'done')).toBe('done')
  })
})

describe('a journal on a full disk', () => {
  let home: string
  let report: { readonly appended: readonly string[]; readonly atChallenge: Outcome; readonly atAnswer: Outcome }
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-full-'))
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, home, generatePrivateKey()])
    report = JSON.parse(stdout) as typeof report
  })
  afterAll(() => rm(home, { recursive: true, force: true }))

  it('an entry that cannot be written whole is an error, and the next one is whole again', () => {
    expect(report.appended).toEqual(['journal_unwritable none', 'journal_unwritable none', 'written'])
    const { attempts } = openJournal(home)
    expect(['before', 'torn', 'full', 'after'].map((key) => attempts.get(key)?.phase)).toEqual([
      'signed',
      undefined,
      undefined,
      'signed',
    ])
  })

  it('nothing is paid for when the intent cannot be written', () => {
    expect(report.atChallenge).toEqual({ outcome: 'journal_unwritable none', payments: 0 })
  })

  it('a result that is paid for is returned, and its payment stays open in the journal', () => {
    expect(report.atAnswer).toEqual({ outcome: 'recorded: false', payments: 1 })
    const open = [...openJournal(home).attempts.all()].filter(({ path }) => path === '/v1/chat/completions')
    expect(open.map(({ open: maximum }) => maximum?.isSigned)).toContain(true)
  })
})

const answeredIn = (key: string, charge: string, maximum: string, group: string) => ({
  phase: 'answered' as const,
  key,
  charge,
  transaction: '0xaa',
  receiptId: `receipt of ${key}`,
  receiptToken: 'token',
  maximum,
  group,
})

const signedIn = (key: string, maximum: string) => ({
  phase: 'signed' as const,
  key,
  maximum,
  deadline: new Date(Date.now() + HOUR_MS).toISOString(),
  payment: 'payment',
})

describe('groups of the budget in a journal', () => {
  let home: string
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
      journal.append(signedIn('paid', '6000'), answeredIn('paid', '4000', '6000', 'chat'))
      await budget.reserve('lost', 3000n, 'chat')
      journal.append(signedIn('lost', '3000'))
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
