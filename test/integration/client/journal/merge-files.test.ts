import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../../../client/journal/journal.ts'
import { mergeFiles } from '../../../../client/journal/merge-files.ts'
import { openJournal, openTidyJournal } from '../../../../client/journal/open-journal.ts'
import { OtherFiles } from '../../../../client/journal/other-files.ts'

const ALWAYS = { files: 1, bytes: 0 }
const HOUR_MS = 3_600_000
const PAYMENT = 'p'.repeat(3000)

let home: string
let directory: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-journal-'))
  directory = join(home, 'journal')
})
afterEach(() => rm(home, { recursive: true, force: true }))

const files = async () => (await readdir(directory)).filter((file) => file.endsWith('ndjson')).sort()
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
const signed = (key: string) => ({
  phase: 'signed' as const,
  key,
  maximum: '5034',
  deadline: new Date(Date.now() - HOUR_MS).toISOString(),
  payment: PAYMENT,
})
const answered = (key: string) => ({
  phase: 'answered' as const,
  key,
  charge: '5034',
  transaction: '0xaa',
  receiptId: `receipt of ${key}`,
  receiptToken: 'token',
  maximum: '5034',
})

/** Journals one finished and one open call in a process that ends. */
async function runProcess(name: string): Promise<void> {
  const journal = openJournal(home)
  journal.append(intended(name), signed(name), answered(name), intended(`${name} open`), signed(`${name} open`))
  await journal.flush()
  // Closed without merging, as by a process that did not come to it.
  await journal.close()
}

const stateOf = ({ attempts }: Journal) =>
  [...attempts.all()].map((attempt) => ({ ...attempt, refused: null })).sort((a, b) => (a.key < b.key ? -1 : 1))

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
    writer.append(intended('a'), signed('a'))
    const reader = openJournal(home)
    expect(reader.attempts.get('a')?.open?.maximum).toBe(5034n)
    writer.append(answered('a'), intended('b'), signed('b'))
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
    running.append(signed('running'))
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
    await writeFile(join(directory, file), `${JSON.stringify({ ...signed('late'), at: new Date().toISOString() })}\n`)
    reader.refresh()
    expect(reader.attempts.get('late')).toBeUndefined()
  })

  it('a line longer than the reading buffer is read whole', async () => {
    const journal = openJournal(home)
    const payment = 'x'.repeat(3 << 20)
    journal.append({ ...signed('long'), payment }, signed('next'))
    await journal.close()
    const { attempts } = openJournal(home)
    expect(attempts.get('long')?.payment).toBe(payment)
    expect(attempts.get('next')?.phase).toBe('signed')
  })
})
