import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { replaceFile } from '../../../../client/files/replace-file.ts'
import { openTemporaryFolder, removeAbandoned, temporaryIn } from '../../../../client/files/temporary-file.ts'

const PROGRAM = fileURLToPath(new URL('replace-with-limit.ts', import.meta.url))

let directory: string
let path: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-replace-'))
  path = join(directory, 'file')
})
afterEach(() => rm(directory, { recursive: true, force: true }))

describe('replacing a file', () => {
  it('a new file has the given mode, and a present one keeps its own', async () => {
    await replaceFile(path, 'new', { mode: 0o600 })
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await chmod(path, 0o640)
    await replaceFile(path, 'newer')
    expect((await stat(path)).mode & 0o777).toBe(0o640)
    expect(await readFile(path, 'utf8')).toBe('newer')
  })

  it('on a full disk the old content stays, and nothing else is left', async () => {
    await writeFile(path, 'old')
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, path])
    expect(stdout.trim()).toBe('EFBIG')
    expect(await readFile(path, 'utf8')).toBe('old')
    expect(await readdir(directory)).toEqual(['file'])
  })

  it('a symbolic link is followed', async () => {
    await writeFile(join(directory, 'target'), 'old')
    await symlink('target', path)
    await replaceFile(path, 'new', { isDurable: false })
    expect(await readFile(join(directory, 'target'), 'utf8')).toBe('new')
    expect((await readdir(directory)).sort()).toEqual(['file', 'target'])
  })
})

it('temporary files of killed processes are removed, those of running ones and of other machines stay', async () => {
  const own = temporaryIn(directory)
  const ended = await promisify(execFile)(process.execPath, ['-e', 'console.log(process.pid)'])
  const dead = own.replace(`-${process.pid}-`, `-${ended.stdout.trim()}-`)
  const running = own.replace(`-${process.pid}-`, `-${process.ppid}-`)
  const foreign = dead.replace(/farebox-[0-9a-f]{8}/, 'farebox-00000000')
  const kept = [own, running, foreign, path, join(directory, '.farebox-notes.tmp')]
  for (const file of [...kept, dead]) await writeFile(file, '')
  await removeAbandoned(directory)
  expect(new Set((await readdir(directory)).map((file) => join(directory, file)))).toEqual(new Set(kept))
})

it('removes the temporary folders of killed processes, and no others, when it makes one', async () => {
  vi.stubEnv('TMPDIR', directory)
  try {
    const own = await openTemporaryFolder('prepared')
    const ended = await promisify(execFile)(process.execPath, ['-e', 'console.log(process.pid)'])
    const dead = own.replace(`-${process.pid}-`, `-${ended.stdout.trim()}-`)
    const running = own.replace(`-${process.pid}-`, `-${process.ppid}-`)
    const foreign = join(directory, 'farebox-command-x1y2z3')
    for (const folder of [dead, running, foreign]) await mkdir(folder)
    await writeFile(join(dead, 'part.mp3'), 'sound')
    const second = await openTemporaryFolder('input')
    expect(new Set(await readdir(directory))).toEqual(
      new Set([own, running, foreign, second].map((path) => basename(path))),
    )
    expect((await stat(second)).mode & 0o777).toBe(0o700)
  } finally {
    vi.unstubAllEnvs()
  }
})
