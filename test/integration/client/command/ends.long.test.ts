import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createPayer } from '../../../support/payer/payer.ts'
import { useCommandBench } from './support/command-bench.ts'

const MINIMUM = 5034n

const bench = useCommandBench()

describe('how farebox transcribe ends', () => {
  it('reads a list of files and writes under a folder', async () => {
    await bench.record('a.mp3', 'deep/b.mp3', 'c.mp3')
    const args = ['transcribe', '--files-from', '-', '-o', '../texts', '-f', 'txt,vtt', '--name', '{name}.en', '--yes']
    expect(await bench.run(args, { input: 'a.mp3\ndeep/b.mp3\n' })).toMatchObject({ code: 0, out: '' })
    expect(await readdir(join(bench.folder, '../texts'))).toEqual(['a.en.txt', 'a.en.vtt', 'b.en.txt', 'b.en.vtt'])
  })

  it('ends with 3 when the budget is used up, and goes on with another', async () => {
    await bench.record('a.mp3', 'b.mp3', 'c.mp3')
    const first = await bench.run(['transcribe', '.', '--yes', '--budget', '0.0101'])
    expect(first.code).toBe(3)
    expect(first.err).toContain('1 not begun')
    expect(await bench.paid()).toBe(2n * MINIMUM)
    expect((await bench.run(['transcribe', '.', '--yes'], { environment: { FAREBOX_BUDGET: '1' } })).code).toBe(0)
    expect(await bench.paid()).toBe(3n * MINIMUM)
  })

  it('ends with 4 when the wallet has no funds', async () => {
    const { privateKey } = await createPayer(bench.sandbox.info.rpcUrl, { usdcAtomic: 0n })
    await bench.record('a.mp3')
    const key = join(bench.folder, '../key')
    await writeFile(key, privateKey, { mode: 0o600 })
    // The flag comes before the key of the environment.
    const { code, err } = await bench.run(['transcribe', '.', '--yes', '--key-file', key])
    expect(code).toBe(4)
    expect(err).toContain('Add USDC to the wallet')
  })

  it('ends with 2 when the key file is open to others, and does not read it', async () => {
    await bench.record('a.mp3')
    const key = join(bench.folder, '../key')
    await writeFile(key, 'secret', { mode: 0o644 })
    const { code, err } = await bench.run(['transcribe', '.', '--yes', '--key-file', key])
    expect(code).toBe(2)
    expect(err).toContain(`chmod 600 ${key}`)
  })

  it('pays for nothing more when the reader of its transcripts leaves', async () => {
    await bench.record('a.mp3', 'b.mp3', 'c.mp3', 'd.mp3')
    const command = bench.start(['transcribe', '.', '--yes', '--out', '-', '--concurrency', '1'])
    command.child.stdout?.destroy()
    const { code, err } = await command.done
    expect(code).toBe(130)
    expect(err).toContain('The reader of standard output has left')
    // The next one is begun while the first is printed.
    expect(await bench.paid()).toBeLessThan(4n * MINIMUM)
  })

  it('goes on when the reader of its events leaves', async () => {
    await bench.record('a.mp3', 'b.mp3')
    const command = bench.start(['transcribe', '.', '--yes', '--json'])
    command.child.stdout?.destroy()
    expect((await command.done).code).toBe(0)
    expect(await readdir(bench.folder)).toEqual(['a.mp3', 'a.srt', 'b.mp3', 'b.srt'])
  })
})
