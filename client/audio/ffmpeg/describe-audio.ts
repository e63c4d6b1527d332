import { AudioError } from '../audio-error.ts'
import { type Ffmpeg, inputFile } from './ffmpeg.ts'

/** What a file claims about its sound. */
export interface AudioDescription {
  /** The names that ffprobe has for the container, such as `mov,mp4,m4a,3gp,3g2,mj2`. */
  readonly format: string
  readonly codec: string
  /** Undefined when the file does not state it. */
  readonly durationMs: number | undefined
}

/** Sample entries of encrypted tracks: FairPlay, Common Encryption, Audible. */
const PROTECTED_TAGS: ReadonlySet<string> = new Set(['drms', 'drmi', 'enca', 'encv', 'aavd', 'aaxc'])

interface ProbedStream {
  readonly codec_type?: string
  readonly codec_name?: string
  readonly codec_tag_string?: string
  readonly duration?: string
}

/** Describes the sound of a file. Throws an `AudioError` if it is no recording, has no sound, or is copy-protected. */
export async function describeAudio(ffmpeg: Ffmpeg, path: string, signal?: AbortSignal): Promise<AudioDescription> {
  const entries = 'stream=codec_type,codec_name,codec_tag_string,duration:format=format_name,duration'
  const args = ['-v', 'error', '-show_entries', entries, '-of', 'json', ...inputFile(path)]
  const { succeeded, stdout, stderr } = await ffmpeg.ffprobe(args, signal === undefined ? {} : { signal })
  if (!succeeded) throw unreadable(path, stderr)
  const { streams = [], format = {} } = JSON.parse(new TextDecoder().decode(stdout)) as {
    streams?: ProbedStream[]
    format?: { format_name?: string; duration?: string }
  }
  if (streams.some(({ codec_tag_string: tag = '' }) => PROTECTED_TAGS.has(tag)))
    throw new AudioError('protected_audio', 'the recording is copy-protected (DRM), so no program can convert it.', {
      path,
    })
  const sound = streams.find(({ codec_type: type }) => type === 'audio')
  if (sound === undefined) throw new AudioError('no_audio', 'there is no sound in it.', { path })
  return {
    format: format.format_name ?? 'unknown',
    codec: sound.codec_name ?? 'unknown',
    durationMs: milliseconds(sound.duration) ?? milliseconds(format.duration),
  }
}

function milliseconds(seconds: string | undefined): number | undefined {
  const value = Number(seconds)
  return seconds !== undefined && Number.isFinite(value) && value >= 0 ? Math.round(value * 1000) : undefined
}

function unreadable(path: string, stderr: string): AudioError {
  const options = { path, cause: stderr.trim() }
  // The index of an MP4 is usually its last part, so that is what a truncated one has lost.
  if (stderr.includes('moov atom not found'))
    return new AudioError('damaged_audio', 'its index is missing; the file is probably incomplete.', options)
  return new AudioError('not_audio', 'ffmpeg finds no recording in it.', options)
}
