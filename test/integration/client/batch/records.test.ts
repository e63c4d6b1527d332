import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PlanCache } from '../../../../client/batch/plan/plan-cache.ts'
import { AppendedLines } from '../../../../client/batch/record/appended-lines.ts'
import { BegunPacks } from '../../../../client/batch/record/begun-packs.ts'
import { type FinishedFile, FinishedFiles } from '../../../../client/batch/record/finished-files.ts'

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-records-'))
})
afterEach(async () => {
  await rm(home, { recursive: true, force: true })
})

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
      return finished.find(stamp, rendering, outputs) !== undefined
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
    expect(finished.find(STAMP, 'style', ['/audio/a.srt', '/audio/a.vtt'])).toBeDefined()
  })

  it('does not count what is begun another time until that is finished', () => {
    const finished = new FinishedFiles(home)
    finished.add(FINISHED)
    expect(finished.isFinished('aa', 'call')).toBe(true)
    finished.beginAgain([{ sha256: 'aa', request: 'call', again: 1 }])
    for (const each of [finished, new FinishedFiles(home)]) {
      expect(each.find(STAMP, 'style', FINISHED.outputs)).toBeUndefined()
      expect(each.isFinished('aa', 'call')).toBe(false)
      expect(each.occurrenceOf({ sha256: 'aa', request: 'call' })).toBe(1)
    }
    finished.add({ ...FINISHED, occurrence: 1 })
    expect(new FinishedFiles(home).find(STAMP, 'style', FINISHED.outputs)).toBeDefined()
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

const limits = { maximumBytes: 100, maximumDurationMs: 1000 }
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

  it('are found without ffmpeg if they are sent as they are', async () => {
    await openWithoutFfmpeg().add({ ...measured, treatment: 'send' })
    expect(await openWithoutFfmpeg().find(STAMP)).toMatchObject({ treatment: 'send' })
  })
})

const clip = (name: string) => ({ path: name, bytes: 1, modifiedMs: 1 })
const stampsOf = (...names: string[]) => new Map(names.map((name) => [name, clip(name)]))

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
