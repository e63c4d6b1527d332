import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readAgain, readRecording } from '../../../../client/audio/read-recording.ts'

const EVERYTHING = { maximumContentBytes: Number.POSITIVE_INFINITY }
let folder = ''
const at = (name: string) => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-read-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe('readRecording', () => {
  test('returns size, hash and content of one reading', async () => {
    const content = Buffer.alloc(200_000, 'speech')
    await writeFile(at('a.mp3'), content)
    const read = await readRecording(at('a.mp3'), EVERYTHING)
    expect(read).toMatchObject({
      bytes: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
    })
    expect(Buffer.from(read.content).equals(content)).toBe(true)
    const beginning = await readRecording(at('a.mp3'), { maximumContentBytes: 199_999 })
    expect(beginning.sha256).toBe(read.sha256)
    expect(Buffer.from(beginning.content).equals(content.subarray(0, 65_536))).toBe(true)
  })

  test('says that nothing was charged for a missing file, a folder, an empty file and a pipe', async () => {
    await mkdir(at('folder.mp3'))
    await writeFile(at('empty.mp3'), '')
    execFileSync('mkfifo', [at('pipe.mp3')])
    for (const [name, code] of [
      ['missing.mp3', 'file_not_found'],
      ['folder.mp3', 'not_a_file'],
      ['empty.mp3', 'empty_file'],
      ['pipe.mp3', 'not_a_file'],
    ] as const) {
      await expect(readRecording(at(name), EVERYTHING)).rejects.toMatchObject({
        code,
        money: 'none',
        message: expect.stringContaining('Nothing was charged.'),
      })
    }
  })

  test('refuses a file that grows while it is read', async () => {
    await writeFile(at('growing.mp3'), Buffer.alloc(4_000_000))
    const done = new AbortController()
    const reading = readRecording(at('growing.mp3'), EVERYTHING).finally(() => done.abort())
    const growing = (async () => {
      while (!done.signal.aborted) {
        appendFileSync(at('growing.mp3'), 'more')
        await setImmediate()
      }
    })()
    await expect(reading).rejects.toMatchObject({ code: 'file_changed' })
    await growing
  })
})

describe('readAgain', () => {
  test('refuses other content, even of the same size and time', async () => {
    await writeFile(at('b.mp3'), 'first')
    const { content: _, ...facts } = await readRecording(at('b.mp3'), EVERYTHING)
    expect(Buffer.from(await readAgain(facts)).toString()).toBe('first')
    const { atime, mtime } = await stat(at('b.mp3'))
    await writeFile(at('b.mp3'), 'other')
    await utimes(at('b.mp3'), atime, mtime)
    await expect(readAgain(facts)).rejects.toMatchObject({ code: 'file_changed' })
  })

  test('reports a file that was renamed', async () => {
    await writeFile(at('c.mp3'), 'first')
    const { content: _, ...facts } = await readRecording(at('c.mp3'), EVERYTHING)
    await rename(at('c.mp3'), at('d.mp3'))
    await expect(readAgain(facts)).rejects.toMatchObject({ code: 'file_not_found' })
  })
})
