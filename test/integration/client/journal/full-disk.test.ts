import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openJournal } from '../../../../client/journal/open-journal.ts'

const PROGRAM = fileURLToPath(new URL('full-disk-program.ts', import.meta.url))

interface Outcome {
  readonly outcome: string
  readonly payments: number
}

let home: string
let report: { readonly appended: readonly string[]; readonly atChallenge: Outcome; readonly atAnswer: Outcome }
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-full-'))
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, home, generatePrivateKey()])
  report = JSON.parse(stdout) as typeof report
})
afterAll(() => rm(home, { recursive: true, force: true }))

describe('a journal on a full disk', () => {
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
