import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { runProgram } from '../../support/processes/run-program.ts'

/** At this constant bitrate, half an hour is just below 25 MiB. */
const LARGEST_KILOBITS_PER_SECOND = 112

/**
 * Creates stereo noise, which is the most expensive audio to decode, when lame and sox are installed; otherwise
 * silence.
 */
export async function makeAudio(
  folder: string,
  seconds: number,
  kilobitsPerSecond = LARGEST_KILOBITS_PER_SECOND,
): Promise<Uint8Array> {
  if (!havePrograms('lame', 'sox')) return generateMp3({ durationMs: seconds * 1000, bitrate: kilobitsPerSecond })
  const [wave, encoded] = [join(folder, 'noise.wav'), join(folder, 'noise.mp3')]
  await runProgram('sox', ['-R', '-n', '-r', '44100', '-c', '2', wave, 'synth', String(seconds), 'pinknoise'])
  await runProgram('lame', ['--quiet', '-f', '-b', String(kilobitsPerSecond), wave, encoded])
  return await readFile(encoded)
}

/** Decodes a file as the cheapest complete inspection would, and discards the samples. */
export async function decodeWithFfmpeg(ffmpegPath: string, path: string): Promise<void> {
  await runProgram(ffmpegPath, ['-v', 'error', '-i', path, '-f', 'null', '-'])
}
