import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { findConverter } from '../ffmpeg.ts'
import type { HearWords } from './hear.ts'

/** Debian's program, with its English model (`pocketsphinx-en-us`). */
const PROGRAM = 'pocketsphinx_continuous'

export interface PocketsphinxOptions {
  readonly program?: string
  /** By default the ffmpeg that the service inspects uploads with. */
  readonly ffmpegPath?: string
}

/** What the model of `pocketsphinx-en-us` hears. */
const SAMPLE_RATE = '16000'

/** Not words: silence and noise (`<s>`, `<sil>`, `[NOISE]`). */
const FILLER = /^(?:<.*>|\[.*\]|\+\+.*\+\+)$/

/** A word with its start, end and probability, as `-time yes` writes it; `family(2)` is a second pronunciation. */
const WORD_LINE = /^(\S+?)(?:\(\d+\))? (\d+\.\d{3}) (\d+\.\d{3}) \d\.\d+$/

/**
 * Creates ears that recognize English in a recording of any format that ffmpeg reads, in about half of its length on one
 * core. Rejects when a program is missing or fails, and when the caller has gone. One recording is heard at a time.
 * Source: pocketsphinx 0.8+5prealpha+1-15 of Debian 12, pocketsphinx_continuous(1); times count from the recording's start.
 */
export function createPocketsphinx({ program = PROGRAM, ffmpegPath }: PocketsphinxOptions = {}): HearWords {
  let last: Promise<unknown> = Promise.resolve()
  const hearNext = async (file: Uint8Array, signal: AbortSignal | undefined) => {
    signal?.throwIfAborted()
    const stopping = signal && { cancelSignal: signal, forceKillAfterDelay: 1000 }
    // It opens its input by name, which no pipe of Node's has.
    const folder = await mkdtemp(join(tmpdir(), 'farebox-hearing-'))
    const [given, decoded] = [join(folder, 'given'), join(folder, 'decoded.wav')]
    try {
      await writeFile(given, file)
      const converter = ffmpegPath ?? (await findConverter())
      const conversion = ['-v', 'error', '-nostdin', '-i', given, '-ac', '1', '-ar', SAMPLE_RATE, decoded]
      await execa(converter, conversion, { ...stopping })
      const options = ['-infile', decoded, '-time', 'yes', '-logfn', '/dev/null']
      const { stdout } = await execa(program, options, { stderr: 'ignore', ...stopping })
      return readWordTimes(stdout)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  return (file, signal) => {
    const heard = last.then(() => hearNext(file, signal))
    last = heard.catch(() => undefined)
    return heard
  }
}

/** Returns whether pocketsphinx is on the PATH and has its model, with which it ends at once when there is nothing to hear. */
export async function hasPocketsphinx(): Promise<boolean> {
  const { failed } = await execa(PROGRAM, ['-infile', '/dev/null'], { stdio: 'ignore', reject: false })
  return !failed
}

/** Reads the words of what `pocketsphinx_continuous -time yes` writes. */
export function readWordTimes(output: string): Awaited<ReturnType<HearWords>> {
  return output.split('\n').flatMap((line) => {
    const [, word, start, end] = WORD_LINE.exec(line) ?? []
    if (word === undefined || FILLER.test(word)) return []
    return [{ text: word, speaker: 0, startSeconds: Number(start), endSeconds: Number(end) }]
  })
}
