import { readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../client/farebox.ts'
import { type RunningCommand, useCommandBench } from '../../support/client/command-bench.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { recordingOf } from '../../support/media/recording.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { until } from '../../support/until.ts'

const MINIMUM = 5034n
/** A name that would clear the screen, begin a line and turn the rest around. */
const HOSTILE = 'b\u001b[2J\n\u202ec.mp3'
/** A second in the format of the spoken samples. */
const SAMPLE_FRAMES = { durationMs: 1000, sampleRate: 22_050, mode: 'mono', bitrate: 32 } as const
const CTRL_C = '\u0003'
/** Waits until a terminal shows a text. */
async function shown({ written }: RunningCommand, text: string): Promise<void> {
  await until(() => stripVTControlCharacters(written.out).includes(text))
}
const type = ({ child }: RunningCommand, keys: string) => child.stdin?.write(keys)
const UPSTREAM_DELAY_MS = 1500
/** The cheapest chat. */
const CHAT = 2000n

describe('farebox transcribe', () => {
  const bench = useCommandBench()

  it('lists prices on stdout without a wallet, and sends nothing', async () => {
    await bench.record('a.mp3', HOSTILE)
    const calls = (await bench.sandbox.upstreamCalls()).length
    const { code, out, err } = await bench.run(['transcribe', '.', '-n'], { environment: { FAREBOX_PRIVATE_KEY: '' } })
    expect(code).toBe(0)
    expect(out.split('\n')).toEqual([
      expect.stringMatching(/0\.005034 USDC {2}a\.mp3 → a\.srt$/),
      expect.stringMatching(/0\.005034 USDC {2}b.* → b.*\.srt$/),
      '',
    ])
    expect(err).toBe('2 recordings, 2 s, 2 uploads: 0.010068 USDC\n')
    expect(out + err).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u)
    expect((await bench.sandbox.upstreamCalls()).length).toBe(calls)
    expect(await readdir(bench.folder)).toHaveLength(2)
  })

  it.each([
    ['-l', 'english', 'Write the code of a language, such as en, eng or pt-BR.'],
    ['--num-speakers', '33', 'Write a whole number from 1 to 32.'],
  ])('refuses %s %s before anything is sent', async (option, value, sentence) => {
    await bench.record('a.mp3')
    const { code, err } = await bench.run(['transcribe', '.', '--yes', option, value])
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(sentence) as string })
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

describe('what farebox transcribe asks for, and what it leaves alone', () => {
  const bench = useCommandBench()
  const vendorCalls = async () => (await bench.sandbox.upstreamCalls()).map(({ fields }) => fields)
  const inFolder = (name: string) => readFile(join(bench.folder, name), 'utf8')

  /** Copies the sample of two voices and a bell, with an end of its own: each test pays for its own recording. */
  async function recordTwoVoices(): Promise<void> {
    const sample = await readFile(new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))
    await writeFile(
      join(bench.folder, 'two.mp3'),
      Buffer.concat([sample, generateMp3({ ...SAMPLE_FRAMES, seed: bench.folder })]),
    )
  }

  it('asks for speakers and sounds, and writes both: subtitles with a dash for each voice and the bell in brackets', async () => {
    await recordTwoVoices()
    const before = (await vendorCalls()).length
    const { code, err } = await bench.run(['transcribe', 'two.mp3', '--yes', '-f', 'srt,json'])
    expect({ code, err }).toMatchObject({ code: 0, err: expect.not.stringContaining('warning') })
    expect((await vendorCalls()).slice(before)).toMatchObject([{ diarize: 'true', tag_audio_events: 'true' }])
    const srt = await inFolder('two.srt')
    expect(srt).toMatch(/\[[^\]]*bell[^\]]*\]/)
    const labeled = await bench.run(['transcribe', 'two.mp3', '--yes', '-o', 'labeled', '--speakers', 'label'])
    expect(labeled.code).toBe(0)
    expect(await inFolder('labeled/two.srt')).toMatch(/\[Speaker 1\][\s\S]*\[Speaker 2\]/)
    const { words } = JSON.parse(await inFolder('two.json')) as { words: { type: string; speaker?: string }[] }
    expect(new Set(words.map(({ speaker }) => speaker))).toEqual(new Set(['speaker_0', 'speaker_1']))
    expect(words.some(({ type }) => type === 'audio_event')).toBe(true)
    expect(await bench.paid()).toBe(MINIMUM)
  })

  it('charges as many calls as there are different requests, however they are written', async () => {
    await recordTwoVoices()
    const before = (await vendorCalls()).length
    const runs = [[], ['--no-events'], ['--num-speakers', '3'], ['-l', 'en'], ['-l', 'eng'], ['--speakers', 'none']]
    for (const [index, options] of runs.entries()) {
      const { code } = await bench.run(['transcribe', 'two.mp3', '--yes', '-o', `run-${index}`, ...options])
      expect(code).toBe(0)
    }
    expect((await vendorCalls()).slice(before)).toMatchObject([
      { diarize: 'true', tag_audio_events: 'true' },
      { diarize: 'true', tag_audio_events: 'false' },
      { diarize: 'true', tag_audio_events: 'true', num_speakers: '3' },
      { diarize: 'true', tag_audio_events: 'true', language_code: 'en' },
      { diarize: 'false', tag_audio_events: 'true' },
    ])
    expect(await inFolder('run-1/two.srt')).not.toContain('bell')
    expect(await bench.paid()).toBe(5n * MINIMUM)
  })

  it('leaves files alone that it did not write, older and newer than the recording, and says so before and after', async () => {
    await bench.record('a.mp3', 'b.mp3')
    for (const [name, time] of [
      ['a.txt', new Date('2020-01-01')],
      ['b.txt', new Date('2100-01-01')],
    ] as const) {
      await writeFile(join(bench.folder, name), `my notes in ${name}`)
      await utimes(join(bench.folder, name), time, time)
    }
    const dryRun = await bench.run(['transcribe', '.', '-n', '-f', 'txt'])
    expect(dryRun.out + dryRun.err).toContain('a.mp3 → a.mp3.txt; a.txt is no transcript of an earlier run and stays')
    expect(dryRun.out + dryRun.err).toContain('b.mp3 → b.mp3.txt; b.txt is no transcript of an earlier run and stays')
    const { code, err, events } = await bench.run(['transcribe', '.', '--yes', '--json', '-f', 'txt'])
    expect(code).toBe(0)
    expect(err).toContain('2 files of the same name kept')
    expect(events().find(({ event }) => event === 'summary')).toMatchObject({ finished: 2, skipped: 0, kept: 2 })
    const finished = events().filter(({ event }) => event === 'finished')
    expect(finished.map(({ kept }) => kept)).toEqual(
      expect.arrayContaining([[{ path: join(bench.folder, 'a.txt'), reason: 'foreign' }]]),
    )
    expect([await inFolder('a.txt'), await inFolder('b.txt')]).toEqual(['my notes in a.txt', 'my notes in b.txt'])
    expect(await bench.paid()).toBe(2n * MINIMUM)
    const forced = await bench.run(['transcribe', '.', '--yes', '--again', '--force', '-f', 'txt'])
    expect(forced.code).toBe(0)
  })
})

describe('how farebox transcribe ends', () => {
  const bench = useCommandBench()

  it('reads a list of files and writes under a folder', async () => {
    await bench.record('a.mp3', 'deep/b.mp3', 'c.mp3')
    const args = ['transcribe', '--files-from', '-', '-o', '../texts', '-f', 'txt,vtt', '--name', '{name}.en', '--yes']
    expect(await bench.run(args, { input: 'a.mp3\ndeep/b.mp3\n' })).toMatchObject({ code: 0, out: '' })
    expect(await readdir(join(bench.folder, '../texts'))).toEqual(['a.en.txt', 'a.en.vtt', 'b.en.txt', 'b.en.vtt'])
  })

  it('says what to do with a URL, and ends with 2', async () => {
    for (const url of ['https://farebox.example/talk.mp3?a=1&b=2', 's3://bucket/talk.mp3']) {
      const { code, err } = await bench.run(['transcribe', url, '--yes'])
      expect(code).toBe(2)
      expect(err).toContain(`${url} is a URL`)
      expect(err).toContain(`curl -L '${url}' | farebox transcribe - --yes`)
    }
    expect(await bench.paid()).toBe(0n)
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

describe('farebox transcribe that is interrupted while it plans', () => {
  const bench = useCommandBench()
  const RECORDINGS = 24

  it.each([0, 1, 5, 11, 17])(
    'after %i recordings pays nothing, says how many are measured, and leaves nothing',
    async (after) => {
      for (let index = 0; index < RECORDINGS; index++)
        await writeFile(join(bench.folder, `${index}.mp3`), recordingOf(`${index} of ${bench.folder}`, 120_000))
      const { child, written, done } = bench.start(['transcribe', '.', '--yes', '--json', '--pack'], {
        environment: { TMPDIR: join(bench.folder, '..') },
      })
      const planned = () => written.out.split('"event":"planned"').length - 1
      // Without output yet, the program asks for prices or reads the first recording.
      await until(() => (after === 0 ? child.pid !== undefined : planned() >= after))
      if (after === 0) await until(async () => (await readdir(join(bench.folder, '..'))).includes('home'))
      child.kill('SIGINT')
      const { code, err, events } = await done
      expect({ code, err }).toEqual({
        code: 130,
        err: expect.stringMatching(
          /^error: Interrupted\. Nothing was charged\. \d+ of 24 recordings are measured already\.\n$/,
        ),
      })
      expect(events().at(-1)).toMatchObject({ event: 'error', code: 'interrupted', money: 'none' })
      expect((await readdir(join(bench.folder, '..'))).toSorted()).toEqual(['audio', 'home'])
      expect(await bench.paid()).toBe(0n)
    },
  )
})

describe('farebox transcribe on a terminal', () => {
  const bench = useCommandBench()
  const onTerminal = (args: readonly string[]) => bench.start(args, { onTerminal: true })
  /** Lets calls of the vendor wait until they are released. */
  async function holdVendor(): Promise<() => Promise<void>> {
    await bench.sandbox.setFaults([{ fault: 'none', delayMs: 20_000, times: 'always' }])
    return () => bench.sandbox.setFaults([])
  }
  async function callsUnderWay(count: number): Promise<void> {
    const before = (await bench.sandbox.upstreamCalls()).length
    await until(async () => (await bench.sandbox.upstreamCalls()).length >= before + count)
  }

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

  it('takes what was typed before the question for no answer to it', async () => {
    await bench.record('a.mp3')
    const command = onTerminal(['transcribe', '.'])
    type(command, 'y\n')
    await shown(command, 'Pay up to')
    // The echo of what was typed ahead has no place here: the question is still open.
    type(command, 'n\n')
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
    // One that follows at once is taken for what npx sends on.
    await delay(600)
    type(command, CTRL_C)
    const { code, out } = await command.done
    expect(code).toBe(130)
    expect(out).toContain(
      '2 payments signed whose outcome is not known yet: they may still be charged, at most 0.010068 USDC together.',
    )
    await release()
    const again = await bench.run(['transcribe', '.', '--yes'])
    expect(again).toMatchObject({ code: 0, err: expect.not.stringContaining('not known yet') })
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

describe('a command that is killed', () => {
  const bench = useCommandBench()

  it('is charged once when it is run again, and its answer arrives', async () => {
    const upstreamCalls = async () => (await bench.sandbox.upstreamCalls()).length
    await bench.sandbox.setFaults([{ fault: 'none', delayMs: UPSTREAM_DELAY_MS }])
    const { child, done } = bench.start(['chat', 'Say hello.'])
    await until(async () => (await upstreamCalls()) > 0)
    child.kill('SIGKILL')
    await done
    const again = await bench.run(['chat', 'Say hello.'])
    expect(again.code).toBe(0)
    expect(again.out).toContain('Say hello.')
    expect([await bench.paid(), await upstreamCalls()]).toEqual([CHAT, 1])
  })
})
