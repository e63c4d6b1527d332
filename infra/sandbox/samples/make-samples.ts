import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { convertAudio } from '../upstream/ffmpeg.ts'
import { createFliteSpeech } from '../upstream/speaking/flite/speak-with-flite.ts'
import { id3Tag } from './id3-tag.ts'
import { type Line, type Sample, samples, scriptOf } from './scripts.ts'

/**
 * Creates the spoken samples next to this file, or those of a language: `node infra/sandbox/samples/make-samples.ts eng`. Needs
 * lame, and espeak-ng for other languages than English; the resulting files are in the repository.
 */

/** The rate of espeak-ng's 16-bit mono output. */
const SAMPLE_RATE = 22_050
const WAV_HEADER_BYTES = 44
const ESPEAK_WORDS_PER_MINUTE = 160

const [, , only] = process.argv
const speak = createFliteSpeech()

for (const sample of samples.filter(({ language }) => only === undefined || language === only)) {
  const sounds: Buffer[] = []
  for (const line of sample.lines) sounds.push(await sound(line, sample), silence(0.35))
  const mp3 = encode(Buffer.concat(sounds))
  const tag = id3Tag({
    title: sample.title,
    artist: `farebox samples, spoken by ${sample.language === 'eng' ? 'flite' : 'espeak-ng'}`,
    language: sample.language,
    lyrics: scriptOf(sample),
  })
  writeFileSync(join(import.meta.dirname, sample.file), Buffer.concat([tag, mp3]))
}

async function sound(line: Line, { language }: Sample): Promise<Buffer> {
  if ('bell' in line) return bell()
  const { text, voice } = line
  if (language !== 'eng') {
    const wav = run('espeak-ng', ['-v', voice, '-s', String(ESPEAK_WORDS_PER_MINUTE), '--stdout', text])
    return wav.subarray(WAV_HEADER_BYTES)
  }
  const mp3 = await speak({ text, voice, speed: 1, sampleRate: 44_100 }, new AbortController().signal)
  return Buffer.from(
    await convertAudio(mp3, { from: 'mp3', to: ['-ar', String(SAMPLE_RATE), '-ac', '1', '-f', 's16le'] }),
  )
}

function silence(seconds: number): Buffer {
  return Buffer.alloc(2 * Math.round(seconds * SAMPLE_RATE))
}

/** Returns two decaying partials, like the bell of a tram. */
function bell(): Buffer {
  const pcm = silence(0.9)
  for (let index = 0; index < pcm.length / 2; index += 1) {
    const seconds = index / SAMPLE_RATE
    const partials = Math.sin(2 * Math.PI * 1318.5 * seconds) + 0.5 * Math.sin(2 * Math.PI * 2637 * seconds)
    pcm.writeInt16LE(Math.round(9000 * Math.exp(-5 * seconds) * partials), 2 * index)
  }
  return pcm
}

/** Encodes as MP3. `-t` omits the encoder's silent information frame, so that every frame is audio. */
function encode(pcm: Buffer): Buffer {
  return run('lame', ['--quiet', '-r', '-s', '22.05', '-m', 'm', '-b', '32', '--cbr', '-t', '-', '-'], pcm)
}

function run(command: string, parameters: readonly string[], input?: Buffer): Buffer {
  const { status, stdout, stderr, error } = spawnSync(command, parameters, {
    maxBuffer: 64 * 1024 * 1024,
    ...(input === undefined ? {} : { input }),
  })
  if (error !== undefined || status !== 0) throw new Error(`${command} failed: ${error?.message ?? stderr.toString()}`)
  return stdout
}
