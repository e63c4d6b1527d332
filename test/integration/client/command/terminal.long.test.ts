import { readdir } from 'node:fs/promises'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { until } from '../../../support/until.ts'
import { type RunningCommand, useCommandBench } from './support/command-bench.ts'

const MINIMUM = 5034n
const CTRL_C = '\u0003'

const bench = useCommandBench()

/** Waits until a terminal shows a text. */
async function shown({ written }: RunningCommand, text: string): Promise<void> {
  await until(() => stripVTControlCharacters(written.out).includes(text))
}

const onTerminal = (args: readonly string[]) => bench.start(args, { onTerminal: true })
const type = ({ child }: RunningCommand, keys: string) => child.stdin?.write(keys)

/** Lets calls of the vendor wait until they are released. */
async function holdVendor(): Promise<() => Promise<void>> {
  await bench.sandbox.setFaults([{ fault: 'none', delayMs: 20_000, times: 'always' }])
  return () => bench.sandbox.setFaults([])
}

async function callsUnderWay(count: number): Promise<void> {
  const before = (await bench.sandbox.upstreamCalls()).length
  await until(async () => (await bench.sandbox.upstreamCalls()).length >= before + count)
}

describe('farebox transcribe on a terminal', () => {
  it('asks before it pays, and pays nothing when the answer is no', async () => {
    await bench.record('a.mp3')
    const command = onTerminal(['transcribe', '.'])
    await shown(command, `Pay up to 0.005034 USDC from ${bench.sandbox.payer.address.toLowerCase()}? [y/N]`)
    type(command, 'n\n')
    expect((await command.done).code).toBe(130)
    expect(await bench.paid()).toBe(0n)
    expect(await readdir(bench.folder)).toEqual(['a.mp3'])
  })

  it.each([CTRL_C, '\u0004'])('pays nothing when the question is left with %j', async (key) => {
    await bench.record('a.mp3')
    const command = onTerminal(['transcribe', '.'])
    await shown(command, 'Pay up to')
    type(command, key)
    expect((await command.done).code).toBe(130)
    expect(await bench.paid()).toBe(0n)
  })

  it('shows a table while it works and leaves the terminal with the figures and the cursor', async () => {
    await bench.record('a.mp3', 'b.mp3', 'c.mp3')
    const command = onTerminal(['transcribe', '.', '--budget', '5'])
    await shown(command, 'Pay up to')
    type(command, 'y\n')
    await shown(command, '0/3 files')
    const { code, out } = await command.done
    expect(code).toBe(0)
    expect(out).toMatch(/0\/3 files.*charged 0 USDC.*left/)
    expect(stripVTControlCharacters(out)).toMatch(/a\.mp3 +1 s · \d/)
    expect(out).toMatch(/3 recordings transcribed.*Charged 0\.015102 USDC, 4\.984898 USDC left of the budget/s)
    expect(out.lastIndexOf('\u001b[?25h')).toBeGreaterThan(out.lastIndexOf('\u001b[?25l'))
    expect(await bench.paid()).toBe(3n * MINIMUM)
  })

  it('lets what is under way finish at the first Ctrl-C, and a rerun does the rest', async () => {
    await bench.record('a.mp3', 'b.mp3', 'c.mp3')
    await bench.sandbox.setFaults([{ fault: 'none', delayMs: 3000, times: 'always' }])
    const command = onTerminal(['transcribe', '.', '--yes', '--concurrency', '1'])
    await shown(command, '1/3 files')
    type(command, CTRL_C)
    await shown(command, 'Interrupted.')
    const { code, out } = await command.done
    expect(code).toBe(130)
    expect(out).toContain('Run the same command again')
    const { length: done } = (await readdir(bench.folder)).filter((name) => name.endsWith('.srt'))
    expect(await bench.paid()).toBe(BigInt(done) * MINIMUM)
    await bench.sandbox.setFaults([])
    expect((await bench.run(['transcribe', '.', '--yes'])).code).toBe(0)
    expect(await bench.paid()).toBe(3n * MINIMUM)
  })

  it('leaves what is under way at the second Ctrl-C, and a rerun pays for nothing again', async () => {
    await bench.record('a.mp3', 'b.mp3')
    const release = await holdVendor()
    const underWay = callsUnderWay(2)
    const command = onTerminal(['transcribe', '.', '--yes'])
    await underWay
    type(command, CTRL_C)
    await shown(command, 'Ctrl-C again')
    type(command, CTRL_C)
    expect((await command.done).code).toBe(130)
    await release()
    expect((await bench.run(['transcribe', '.', '--yes'])).code).toBe(0)
    expect(await bench.paid()).toBe(2n * MINIMUM)
    expect(await readdir(bench.folder)).toEqual(['a.mp3', 'a.srt', 'b.mp3', 'b.srt'])
  })

  it('ends at once with SIGTERM, and a rerun pays for nothing again', async () => {
    await bench.record('a.mp3')
    const release = await holdVendor()
    const underWay = callsUnderWay(1)
    const command = bench.start(['transcribe', '.', '--yes'])
    await underWay
    command.child.kill('SIGTERM')
    expect((await command.done).code).toBe(130)
    await release()
    expect((await bench.run(['transcribe', '.', '--yes'])).code).toBe(0)
    expect(await bench.paid()).toBe(MINIMUM)
  })
})
