import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { HearWords } from './hear.ts'

const runProgram = promisify(execFile)

export interface PocketsphinxOptions {
  /** Debian's `pocketsphinx_continuous`, with its English model (`pocketsphinx-en-us`). */
  readonly program?: string
  readonly ffmpegPath?: string
}

/** What the model of `pocketsphinx-en-us` hears. */
const SAMPLE_RATE = '16000'

/** A line takes about 30 bytes, an hour of fast speech 12,000 lines. */
const MAXIMUM_OUTPUT_BYTES = 8 * 1024 * 1024

/** Not words: silence and noise (`<s>`, `<sil>`, `[NOISE]`). */
const FILLER = /^(?:<.*>|\[.*\]|\+\+.*\+\+)$/

/** A word with its start, end and probability, as `-time yes` writes it; `family(2)` is a second pronunciation. */
const WORD_LINE = /^(\S+?)(?:\(\d+\))? (\d+\.\d{3}) (\d+\.\d{3}) \d\.\d+$/

/**
 * Creates ears that recognize English in a recording of any format that ffmpeg reads, in about half of its length on one
 * core. Rejects when a program is missing or fails. One recording is heard at a time.
 * Source: pocketsphinx 0.8+5prealpha+1-15 of Debian 12, pocketsphinx_continuous(1); times count from the recording's start.
 */
export function createPocketsphinx({
  program = 'pocketsphinx_continuous',
  ffmpegPath = 'ffmpeg',
}: PocketsphinxOptions = {}): HearWords {
  let last: Promise<unknown> = Promise.resolve()
  const hearNext = async (file: Uint8Array) => {
    // It opens its input by name, which no pipe of Node's has.
    const folder = await mkdtemp(join(tmpdir(), 'farebox-hearing-'))
    const [given, decoded] = [join(folder, 'given'), join(folder, 'decoded.wav')]
    try {
      await writeFile(given, file)
      await runProgram(ffmpegPath, ['-v', 'error', '-nostdin', '-i', given, '-ac', '1', '-ar', SAMPLE_RATE, decoded])
      const options = ['-infile', decoded, '-time', 'yes', '-logfn', '/dev/null']
      const { stdout } = await runProgram(program, options, { maxBuffer: MAXIMUM_OUTPUT_BYTES })
      return readWordTimes(stdout)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  return (file) => {
    const heard = last.then(() => hearNext(file))
    last = heard.catch(() => undefined)
    return heard
  }
}

/** Reads the words of what `pocketsphinx_continuous -time yes` writes. */
export function readWordTimes(output: string): Awaited<ReturnType<HearWords>> {
  return output.split('\n').flatMap((line) => {
    const [, word, start, end] = WORD_LINE.exec(line) ?? []
    if (word === undefined || FILLER.test(word)) return []
    return [{ text: word, speaker: 0, startSeconds: Number(start), endSeconds: Number(end) }]
  })
}
