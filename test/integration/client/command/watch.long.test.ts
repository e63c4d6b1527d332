import { appendFile, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { recordingOf } from '../../../support/media/recording.ts'
import { until } from '../../../support/until.ts'
import { useCommandBench } from './support/command-bench.ts'

const MINIMUM = 5034n

const bench = useCommandBench()

const has = (name: string) => until(async () => (await readdir(bench.folder)).includes(name))

describe('farebox transcribe --watch', () => {
  it('transcribes what is there and what arrives, each file when it is complete, until it is interrupted', async () => {
    await bench.record('there.mp3')
    const command = bench.start(['transcribe', '.', '--watch', '--yes', '--json', '--format', 'txt'])
    await has('there.txt')
    const recording = recordingOf('Complete when the last byte has come.', 30_000)
    const half = Math.floor(recording.length / 2)
    await writeFile(join(bench.folder, 'slow.mp3'), recording.subarray(0, half))
    await bench.record('quick.mp3')
    await appendFile(join(bench.folder, 'slow.mp3'), recording.subarray(half))
    await has('slow.txt')
    await has('quick.txt')
    expect(await readFile(join(bench.folder, 'slow.txt'), 'utf8')).toContain('last byte has come')
    command.child.kill('SIGINT')
    const { code, events } = await command.done
    expect(code).toBe(130)
    const finished = events().filter(({ event }) => event === 'finished')
    expect(new Set(finished.map(({ label }) => label))).toEqual(new Set(['quick.mp3', 'slow.mp3', 'there.mp3']))
    expect(await bench.paid()).toBe(3n * MINIMUM)
  })

  it('keeps its budget over all that arrives, and ends with 3', async () => {
    await bench.record('a.mp3')
    const command = bench.start(['transcribe', '.', '--watch', '--yes', '--budget', '0.0101'])
    await has('a.srt')
    await bench.record('b.mp3')
    await has('b.srt')
    await bench.record('c.mp3')
    expect((await command.done).code).toBe(3)
    await rm(join(bench.folder, 'a.srt'))
  })

  it('refuses what is no folder, instead of waiting for it', async () => {
    const { code, err } = await bench.run(['transcribe', 'missing', '--watch', '--yes'])
    expect(code).toBe(2)
    expect(err).toContain('missing')
  })

  it('needs --yes where no terminal is', async () => {
    const { code, err } = await bench.run(['transcribe', '.', '--watch'])
    expect(code).toBe(2)
    expect(err).toContain('--yes')
  })
})
