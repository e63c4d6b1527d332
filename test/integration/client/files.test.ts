import { execFile } from 'node:child_process'
import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readRecording } from '../../../client/audio/read-recording.ts'
import { type FindOptions, findRecordings } from '../../../client/batch/find/find-recordings.ts'
import { planBatch } from '../../../client/batch/plan/plan-batch.ts'
import { PlanCache } from '../../../client/batch/plan/plan-cache.ts'
import { Preparer } from '../../../client/batch/plan/preparer.ts'
import { AppendedLines } from '../../../client/batch/record/appended-lines.ts'
import { BegunPacks } from '../../../client/batch/record/begun-packs.ts'
import { type FinishedFile, FinishedFiles } from '../../../client/batch/record/finished-files.ts'
import type { BatchOptions } from '../../../client/batch/types.ts'
import type { Farebox } from '../../../client/farebox.ts'
import { openTemporaryFolder, removeAbandoned, replaceFile, temporaryIn } from '../../../client/files/files.ts'
import { generateFrames } from '../../support/media/mp3-generator.ts'

const PROGRAM = fileURLToPath(new URL('../../support/client/replace-with-limit.ts', import.meta.url))
const STAMP = { path: '/audio/a.mp3', bytes: 10, modifiedMs: 1.5 }
const FINISHED: FinishedFile = {
  ...STAMP,
  sha256: 'aa',
  request: 'call',
  rendering: 'style',
  occurrence: 0,
  durationMs: 1000,
  outputs: ['/audio/a.srt'],
}
const limits = { maximumBytes: 100, maximumDurationMs: 1000 }
const clip = (name: string) => ({ path: name, bytes: 1, modifiedMs: 1 })
const stampsOf = (...names: string[]) => new Map(names.map((name) => [name, clip(name)]))

describe('a reading that is interrupted', () => {
  it('at any moment, or after its end, leaves no error that nobody catches', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-reading-'))
    const path = join(directory, 'recording')
    await writeFile(path, new Uint8Array(300_000))
    const uncaught: unknown[] = []
    const listener = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtException', listener)
    for (let moment = 0; moment < 400; moment++) {
      const interrupt = new AbortController()
      const timer = setTimeout(() => interrupt.abort(), moment / 100)
      await readRecording(path, { maximumContentBytes: 300_000, signal: interrupt.signal }).catch(() => undefined)
      clearTimeout(timer)
      interrupt.abort()
      await new Promise(setImmediate)
    }
    process.off('uncaughtException', listener)
    await rm(directory, { recursive: true })
    expect(uncaught).toEqual([])
  })
})

describe('writing over a file', () => {
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
})

describe('finding recordings', () => {
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

describe('records of a batch', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'farebox-records-'))
  })

  afterEach(async () => {
    await rm(home, { recursive: true, force: true })
  })

  describe('lines that several processes append', () => {
    it('are read back without one that was written in part', async () => {
      const path = join(home, 'batch', 'lines.ndjson')
      new AppendedLines(path).append({ number: 1 }, { number: 2 })
      await appendFile(path, '{"number": 3')
      new AppendedLines(path).append({ number: 4 })
      await appendFile(path, 'null\n7\n')
      expect(new AppendedLines(path).read()).toEqual([{ number: 1 }, { number: 2 }, { number: 4 }])
    })
  })

  describe('the record of finished files', () => {
    it('knows a file by path, size, time, request and transcripts', () => {
      new FinishedFiles(home).add(FINISHED)
      const finished = new FinishedFiles(home)
      const find = (changes: Partial<FinishedFile>) => {
        const { rendering, outputs, ...stamp } = { ...FINISHED, ...changes }
        return finished.find(stamp, [rendering], outputs) !== undefined
      }
      expect(find({})).toBe(true)
      for (const change of [
        { path: '/audio/b.mp3' },
        { bytes: 11 },
        { modifiedMs: 2 },
        { rendering: 'other style' },
        { outputs: ['/audio/a.srt', '/audio/a.vtt'] },
      ])
        expect(find(change)).toBe(false)
    })

    it('adds up transcripts that were written by several runs', () => {
      const finished = new FinishedFiles(home)
      finished.add(FINISHED)
      finished.add({ ...FINISHED, outputs: ['/audio/a.vtt'] })
      expect(finished.find(STAMP, ['style'], ['/audio/a.srt', '/audio/a.vtt'])).toBeDefined()
    })

    it('does not count what is begun another time until that is finished', () => {
      const finished = new FinishedFiles(home)
      finished.add(FINISHED)
      expect(finished.isFinished('aa', 'call')).toBe(true)
      finished.beginAgain([{ sha256: 'aa', request: 'call', again: 1 }])
      for (const each of [finished, new FinishedFiles(home)]) {
        expect(each.find(STAMP, ['style'], FINISHED.outputs)).toBeUndefined()
        expect(each.isFinished('aa', 'call')).toBe(false)
        expect(each.occurrenceOf({ sha256: 'aa', request: 'call' })).toBe(1)
      }
      finished.add({ ...FINISHED, occurrence: 1 })
      expect(new FinishedFiles(home).find(STAMP, ['style'], FINISHED.outputs)).toBeDefined()
    })

    it('names the source of a transcript as long as that exists', async () => {
      const path = join(home, 'a.mp3')
      await writeFile(path, '')
      const finished = new FinishedFiles(home)
      finished.add({ ...FINISHED, path })
      expect(finished.ownerOf('/audio/a.srt', '/audio/a.wav')).toBe(path)
      expect(finished.ownerOf('/audio/a.srt', path)).toBeUndefined()
      await rm(path)
      expect(finished.ownerOf('/audio/a.srt', '/audio/a.wav')).toBeUndefined()
    })

    it('holds no key and no text of a recording', async () => {
      new FinishedFiles(home).add(FINISHED)
      expect(Object.keys(JSON.parse(await readFile(join(home, 'batch', 'finished.ndjson'), 'utf8')) as object)).toEqual(
        Object.keys(FINISHED),
      )
    })
  })

  const openWithoutFfmpeg = () => new PlanCache(home, limits, () => Promise.reject(new Error('looked for ffmpeg')))
  describe('measured recordings', () => {
    const upload = { bytes: 5, sha256: 'bb', durationMs: 900, offsetMs: 0 }
    const measured = { ...STAMP, sha256: 'aa', uploads: [upload], warnings: [] }

    it('are found while the file, the limits and ffmpeg are the same', async () => {
      let version: string | null = 'ffmpeg 7'
      const open = (changes = {}) => new PlanCache(home, { ...limits, ...changes }, () => Promise.resolve(version))
      await open().add({ ...measured, treatment: 'convert' })
      expect(await open().find(STAMP)).toMatchObject({ sha256: 'aa', uploads: [upload] })
      expect(await open().find({ ...STAMP, modifiedMs: 2 })).toBeUndefined()
      expect(await open({ maximumBytes: 99 }).find(STAMP)).toBeUndefined()
      version = 'ffmpeg 8'
      expect(await open().find(STAMP)).toBeUndefined()
    })

    it('are refused when the service has come to take none that short', async () => {
      const path = join(home, 'short.mp3')
      await writeFile(path, generateFrames(3))
      const prices = { pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' }
      const measure = async (minimumDurationMs: number) => {
        const published = { maximumBytes: 26_214_400, minimumDurationMs, maximumDurationMs: 3_600_000 }
        const terms = { limits: published, prices, priceOf: () => 0n, offered: {} }
        const preparer = new Preparer({ terms, home, ffmpegPath: undefined, signal: undefined })
        try {
          return await preparer.measure(path, false)
        } finally {
          await preparer.discard()
        }
      }
      expect(await measure(79)).toMatchObject({ treatment: 'send', uploads: [{ durationMs: 79 }] })
      await expect(measure(80)).rejects.toMatchObject({ code: 'audio_too_short', money: 'none', path })
    })

    it('are found without ffmpeg if they are sent as they are', async () => {
      await openWithoutFfmpeg().add({ ...measured, treatment: 'send' })
      expect(await openWithoutFfmpeg().find(STAMP)).toMatchObject({ treatment: 'send' })
    })
  })

  describe('packs that were begun', () => {
    const upload = { bytes: 5, sha256: 'bb', durationMs: 900, offsetMs: 0 }
    const pack = (...names: string[]) => ({ request: 'call', clips: names.map(clip), upload, spans: [] })

    it('are found if all their clips are there, unchanged and for the same request', () => {
      new BegunPacks(home).add(pack('a', 'b'))
      const packs = new BegunPacks(home)
      expect(packs.among(stampsOf('a', 'b', 'c'), 'call')).toHaveLength(1)
      expect(packs.among(stampsOf('a', 'c'), 'call')).toEqual([])
      expect(packs.among(stampsOf('a', 'b'), 'other')).toEqual([])
      expect(packs.among(new Map([...stampsOf('a'), ['b', { ...clip('b'), modifiedMs: 2 }]]), 'call')).toEqual([])
    })

    it('never share a clip: the latest counts', () => {
      const packs = new BegunPacks(home)
      packs.add(pack('a', 'b'))
      packs.add(pack('b', 'c'))
      expect(packs.among(stampsOf('a', 'b', 'c'), 'call').map(({ clips }) => clips.map(({ path }) => path))).toEqual([
        ['b', 'c'],
      ])
    })
  })
})
