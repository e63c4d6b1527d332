import { execa } from 'execa'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'

interface Conversion {
  /** The format of the audio. */
  readonly from: 'mp3' | 'wav'
  /** ffmpeg's options of the output, with its format. */
  readonly to: readonly string[]
  readonly signal?: AbortSignal | undefined
}

/** Returns the path of the ffmpeg that the service inspects uploads with. Throws without one. */
export async function findConverter(): Promise<string> {
  const path = await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  if (path === undefined) throw new Error('there is no ffmpeg: set FFMPEG_PATH, or run `npm ci` with optional packages')
  return path
}

/** Converts audio. Throws without an ffmpeg, and with its message. */
export async function convertAudio(audio: Uint8Array, { from, to, signal }: Conversion): Promise<Uint8Array> {
  const path = await findConverter()
  const { stdout } = await execa(path, ['-v', 'error', '-f', from, '-i', 'pipe:0', ...to, 'pipe:1'], {
    input: audio,
    encoding: 'buffer',
    // The default is 100 MB, of which an hour of samples is more.
    maxBuffer: Number.POSITIVE_INFINITY,
    ...(signal && { cancelSignal: signal, forceKillAfterDelay: 1000 }),
  })
  return stdout
}
