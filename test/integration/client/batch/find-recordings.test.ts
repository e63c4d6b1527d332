import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type FindOptions, findRecordings } from '../../../../client/batch/find/find-recordings.ts'
import { planBatch } from '../../../../client/batch/plan/plan-batch.ts'
import type { BatchOptions } from '../../../../client/batch/types.ts'
import type { Farebox } from '../../../../client/farebox.ts'

let cwd: string
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'farebox-find-'))
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(cwd, { recursive: true, force: true })
})

async function create(...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await mkdir(dirname(join(cwd, name)), { recursive: true })
    await writeFile(join(cwd, name), '')
  }
}

async function find(paths: readonly string[], options: FindOptions = {}): Promise<string[]> {
  return (await findRecordings(paths, { cwd, ...options })).map(({ label, name }) => `${label} as ${name}`)
}

describe('finding recordings', () => {
  it('finds recordings in a folder and its folders, sorted, and neither transcripts nor hidden files', async () => {
    await create(
      'in/b.mp3',
      'in/a.WAV',
      'in/a.srt',
      'in/deep/er/c.m4a',
      'in/.hidden.mp3',
      'in/._b.mp3',
      'in/deep/x.txt',
    )
    expect(await find(['in'])).toEqual(['in/a.WAV as a.WAV', 'in/b.mp3 as b.mp3', 'in/deep/er/c.m4a as deep/er/c.m4a'])
  })

  it('takes a file that is named whatever its ending, and one that does not exist', async () => {
    await create('memo.dat')
    expect(await find(['memo.dat', 'missing.mp3'])).toEqual(['memo.dat as memo.dat', 'missing.mp3 as missing.mp3'])
  })

  it('expands globs; one that names no ending takes recordings only', async () => {
    await create('in/a.mp3', 'in/a.srt', 'in/b/c.ogg', 'in/b/c.dat')
    expect(await find(['in/**/*.{mp3,ogg}'])).toEqual(['in/a.mp3 as a.mp3', 'in/b/c.ogg as b/c.ogg'])
    expect(await find(['in/*'])).toEqual(['in/a.mp3 as a.mp3'])
    expect(await find(['in/**/*.dat'])).toEqual(['in/b/c.dat as b/c.dat'])
    expect(await find([join(cwd, 'in/*.mp3')])).toEqual([`${cwd}/in/a.mp3 as a.mp3`])
  })

  it('returns a glob that matches nothing, so that it is reported', async () => {
    expect(await find(['*.mp3'])).toEqual(['*.mp3 as *.mp3'])
  })

  it('prefers a file to a glob of the same text', async () => {
    await create('take [1].mp3', 'take 1.mp3')
    expect(await find(['take [1].mp3'])).toEqual(['take [1].mp3 as take [1].mp3'])
  })

  it('returns each file once', async () => {
    await create('in/a.mp3')
    // As it was named first.
    expect(await find(['in/a.mp3', 'in', 'in/../in/a.mp3', 'in/*.mp3'])).toEqual(['in/a.mp3 as a.mp3'])
    expect(await find(['in/../in/a.mp3', 'in'])).toEqual(['in/../in/a.mp3 as a.mp3'])
  })

  it('follows links to folders once, and reports a link to nothing', async () => {
    await create('in/a.mp3')
    await symlink(join(cwd, 'in'), join(cwd, 'in/loop'))
    await symlink(join(cwd, 'nowhere'), join(cwd, 'in/z.mp3'))
    expect(await find(['in'])).toEqual(['in/a.mp3 as a.mp3', 'in/z.mp3 as z.mp3'])
  })

  it('reads a list of lines, or of names that end with NUL, and expands no globs in it', async () => {
    await create('a.mp3', 'b [1].mp3', 'in/c.mp3')
    const lines = Readable.from(['\ufeffa.mp3\r\n\nb [1].m', 'p3\nin\n'])
    const expected = ['a.mp3 as a.mp3', 'b [1].mp3 as b [1].mp3', 'in/c.mp3 as c.mp3']
    expect(await find([], { filesFrom: lines })).toEqual(expected)
    await writeFile(join(cwd, 'list'), 'a.mp3\0b [1].mp3\0in\0')
    expect(await find([], { filesFrom: join(cwd, 'list') })).toEqual(expected)
    await expect(find([], { filesFrom: join(cwd, 'no list') })).rejects.toMatchObject({ code: 'list_unreadable' })
  })

  it('keeps nothing of standard input that ends early, or if no batch can be planned', async () => {
    vi.stubEnv('TMPDIR', cwd)
    const broken = Readable.from(
      (async function* () {
        yield await Promise.resolve(Buffer.from('sound'))
        throw new Error('the program before the pipe failed')
      })(),
    )
    await expect(findRecordings(['-'], { cwd, stdin: broken })).rejects.toMatchObject({ code: 'input_unreadable' })
    expect(await readdir(cwd)).toEqual([])
    const sources = await findRecordings(['-'], { cwd, stdin: Readable.from([Buffer.from('sound')]) })
    const options = { formats: [], request: {}, subtitles: {}, output: {}, concurrency: 1 } as unknown as BatchOptions
    await expect(planBatch({} as Farebox, sources, options)).rejects.toMatchObject({ code: 'invalid_options' })
    expect(await readdir(cwd)).toEqual([])
  })

  it('keeps audio from standard input in a file, since it is read more than once', async () => {
    const stdin = Readable.from([Buffer.from('sound'), Buffer.from(' and more')])
    const [source] = await findRecordings(['-'], { cwd, stdin })
    expect(source).toMatchObject({ label: 'standard input', name: 'stdin', isTemporary: true })
    expect(await readFile(source?.path ?? '', 'utf8')).toBe('sound and more')
    await rm(dirname(source?.path ?? ''), { recursive: true })
  })
})
