import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { planTargets } from '../../../../../client/command/commands/media/targets.ts'
import { scriptedIo } from '../../../../unit/client/command/support/scripted-io.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-targets-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

interface Asked {
  readonly out?: string
  readonly count?: number
  readonly text?: string
  readonly force?: boolean
  readonly isTerminal?: boolean
}

function plan({ out = `${folder}/`, count = 1, text = 'A cat', force = false, isTerminal = false }: Asked) {
  return planTargets(scriptedIo({ isTerminal }), { out, count, ending: '.png', text, force })
}

const inFolder = (name: string) => join(folder, name)

describe('where results are written', () => {
  it('names files after the first words of the text', () => {
    expect(plan({ text: '  A cat, on a TRAM! ' })).toEqual([inFolder('a-cat-on-a-tram.png')])
    expect(plan({ text: '路面電車 ⛵ ../../etc/passwd' })).toEqual([inFolder('路面電車-etc-passwd.png')])
    expect(plan({ text: '!!!' })).toEqual([inFolder('farebox.png')])
    expect(plan({ text: `short ${'x'.repeat(300)} words` })).toEqual([inFolder('short-words.png')])
  })

  it('numbers several files before the ending', () => {
    expect(plan({ out: inFolder('cat.jpg'), count: 3 })).toEqual(['cat-1.jpg', 'cat-2.jpg', 'cat-3.jpg'].map(inFolder))
  })

  it('takes a folder with or without a slash', () => {
    expect(plan({ out: folder })).toEqual([inFolder('a-cat.png')])
    expect(plan({ out: `${folder}/` })).toEqual([inFolder('a-cat.png')])
  })

  it('never replaces a file that was not named, and a named one only by force', async () => {
    await writeFile(inFolder('a-cat.png'), '')
    await writeFile(inFolder('b-2.png'), '')
    expect(plan({})).toEqual([inFolder('a-cat-2.png')])
    expect(() => plan({ out: inFolder('a-cat.png') })).toThrow('exists')
    expect(() => plan({ out: inFolder('b.png'), count: 2 })).toThrow('b-2.png exists')
    expect(plan({ out: inFolder('a-cat.png'), force: true })).toEqual([inFolder('a-cat.png')])
  })

  it('refuses what cannot be written, before anything is paid', async () => {
    await mkdir(inFolder('sub'))
    await writeFile(inFolder('file'), '')
    await symlink('/dev/null', inFolder('null.png'))
    expect(() => plan({ out: inFolder('missing/a.png') })).toThrow('There is no folder')
    expect(() => plan({ out: inFolder('file/a.png') })).toThrow('is not a folder')
    expect(() => plan({ out: inFolder('null.png'), force: true })).toThrow('not a regular file')
  })

  it('takes standard output for one file, and not where a terminal is', () => {
    expect(plan({ out: '-' })).toEqual(['-'])
    expect(() => plan({ out: '-', count: 2 })).toThrow('one file only')
    expect(() => plan({ out: '-', isTerminal: true })).toThrow('A terminal cannot show this')
  })
})
