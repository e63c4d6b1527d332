import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { convertAudio } from '../ffmpeg.ts'

/** One word that pocketsphinx heard, and when. */
export interface SpokenWord {
  readonly text: string
  readonly startSeconds: number
  readonly endSeconds: number
}

const PROGRAM = 'pocketsphinx_continuous'

/** Returns whether pocketsphinx is on the PATH and has its model, with which it ends at once when there is nothing to hear. */
export async function canHear(): Promise<boolean> {
  const { failed } = await execa(PROGRAM, ['-infile', '/dev/null'], { stdio: 'ignore', reject: false })
  return !failed
}

/**
 * Returns the words that pocketsphinx hears in an MP3, in lower case and without punctuation. It hears English only. An
 * aborted one rejects. Throws when the program fails, as without its English model.
 *
 * Source: Debian 12, packages `pocketsphinx` and `pocketsphinx-en-us` 0.8+5prealpha+1-15: samples of 16 kHz, the option
 * `-time yes`
 */
export async function hearMp3(mp3: Uint8Array, signal?: AbortSignal): Promise<SpokenWord[]> {
  return await hearWav(
    await convertAudio(mp3, { from: 'mp3', to: ['-ar', '16000', '-ac', '1', '-f', 'wav'], signal }),
    signal,
  )
}

/** Does the same for a WAV of 16 kHz, 16 bits and one channel. */
export async function hearWav(wav: Uint8Array, signal?: AbortSignal): Promise<SpokenWord[]> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-hearing-'))
  try {
    const file = join(folder, 'recording.wav')
    await writeFile(file, wav, { mode: 0o600 })
    const { stdout } = await execa(PROGRAM, ['-infile', file, '-time', 'yes'], {
      stderr: 'ignore',
      ...(signal && { cancelSignal: signal, forceKillAfterDelay: 1000 }),
    })
    return stdout.split('\n').flatMap((line) => readWord(line) ?? [])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Reads a line of a word with start, end and probability: `the(2) 1.030 1.250 0.693265`, the second pronunciation. Others are
 * whole sentences, silence (`<sil>`) and noise (`[NOISE]`, `++BREATH++`).
 */
const WORD_LINE = /^([\p{L}\p{N}'._-]+)(?:\(\d+\))? (\d+\.\d+) (\d+\.\d+) \d+\.\d+$/u

function readWord(line: string): SpokenWord | undefined {
  const [, text, start, end] = WORD_LINE.exec(line) ?? []
  return text === undefined ? undefined : { text, startSeconds: Number(start), endSeconds: Number(end) }
}
