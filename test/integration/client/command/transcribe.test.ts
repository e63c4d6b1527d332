import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../client/farebox.ts'
import { useCommandBench } from './support/command-bench.ts'

const MINIMUM = 5034n
/** A name that would clear the screen, begin a line and turn the rest around. */
const HOSTILE = 'b\u001b[2J\n\u202ec.mp3'

const bench = useCommandBench()

describe('farebox transcribe', () => {
  it('lists prices without a wallet, sends nothing, and writes nothing to stdout', async () => {
    await bench.record('a.mp3', HOSTILE)
    const calls = (await bench.sandbox.upstreamCalls()).length
    const { code, out, err } = await bench.run(['transcribe', '.', '-n'], { environment: { FAREBOX_PRIVATE_KEY: '' } })
    expect({ code, out }).toEqual({ code: 0, out: '' })
    expect(err).toMatch(/0\.005034 USDC {2}a\.mp3 → a\.srt\n/)
    expect(err).toContain('2 recordings, 2 s, 2 uploads: 0.010068 USDC')
    expect(err).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u)
    expect((await bench.sandbox.upstreamCalls()).length).toBe(calls)
    expect(await readdir(bench.folder)).toHaveLength(2)
  })

  it('pays nothing without --yes where no terminal is', async () => {
    await bench.record('a.mp3')
    const { code, out, err } = await bench.run(['transcribe', '.'])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain('Add --yes')
    expect(await bench.paid()).toBe(0n)
  })

  it('reports each event as a line of JSON, and the charge is what the plan said', async () => {
    await bench.record('a.mp3', HOSTILE)
    await writeFile(join(bench.folder, 'empty.mp3'), '')
    const { code, out, err, events } = await bench.run(['transcribe', '.', '--yes', '--json', '--receipts'])
    expect(code).toBe(1)
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u)
    expect(err).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u)
    const all = events()
    const of = (name: string) => all.filter(({ event }) => event === name)
    expect(of('planned')).toHaveLength(3)
    expect(of('totals')).toMatchObject([{ to_do: 2, to_charge: '0.010068' }])
    expect(of('failed')).toMatchObject([{ label: 'empty.mp3', error: { code: 'empty_file', money: 'none' } }])
    const finished = of('finished')
    expect(finished.map(({ path }) => path)).toEqual(
      expect.arrayContaining([join(bench.folder, 'a.mp3'), join(bench.folder, HOSTILE)]),
    )
    const charges = finished.map(({ charged }) => parseUsdc(String(charged)))
    expect(charges).toEqual([MINIMUM, MINIMUM])
    expect(all.at(-1)).toMatchObject({ event: 'summary', finished: 2, failed: 1, charged: '0.010068', exit_code: 1 })
    expect(await bench.paid()).toBe(2n * MINIMUM)
    expect(await readdir(bench.folder)).toEqual(expect.arrayContaining(['a.srt', 'a.receipt.json']))
  })

  it('needs neither --yes nor money for what is finished', async () => {
    await bench.record('a.mp3')
    expect(await bench.run(['transcribe', '.', '--yes'])).toMatchObject({ code: 0, out: '' })
    const { code, err } = await bench.run(['transcribe', '.'])
    expect(code).toBe(0)
    expect(err).toContain('Nothing to transcribe.\n1 recording finished before')
    expect(await bench.paid()).toBe(MINIMUM)
  })

  it('writes the transcript of standard input, and nothing else, to standard output', async () => {
    await bench.record('a.mp3')
    await bench.run(['transcribe', 'a.mp3', '--format', 'txt', '--yes'])
    const input = await readFile(join(bench.folder, 'a.mp3'))
    const { code, out } = await bench.run(['transcribe', '-', '--yes'], { input })
    expect(code).toBe(0)
    expect(out).toBe(await readFile(join(bench.folder, 'a.txt'), 'utf8'))
    expect(await bench.paid()).toBe(MINIMUM)
  })
})
