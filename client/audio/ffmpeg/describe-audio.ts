import { AudioError, protectedAudio } from '../audio-error.ts'
import { PROTECTED_ENTRIES } from '../protected-track.ts'
import { type Ffmpeg, inputFile } from './ffmpeg.ts'

/** What a file claims about its sound. */
export interface AudioDescription {
  /** The names that ffprobe has for the container, such as `mov,mp4,m4a,3gp,3g2,mj2`. */
  readonly format: string
  readonly codec: string
  /** Undefined when the file does not state it. */
  readonly durationMs: number | undefined
  /** How much later the sound begins than the recording, of which it may be only one track. */
  readonly startMs: number
}

interface ProbedStream {
  readonly codec_type?: string
  readonly codec_name?: string
  readonly codec_tag_string?: string
  readonly duration?: string
  readonly start_time?: string
}

/** Describes the sound of a file. Throws an `AudioError` if it is no recording, has no sound, or is copy-protected. */
export async function describeAudio(ffmpeg: Ffmpeg, path: string, signal?: AbortSignal): Promise<AudioDescription> {
  const entries =
    'stream=codec_type,codec_name,codec_tag_string,duration,start_time:format=format_name,duration,start_time'
  const args = ['-v', 'error', '-show_entries', entries, '-of', 'json', ...inputFile(path)]
  const { succeeded, stdout, stderr } = await ffmpeg.ffprobe(args, signal === undefined ? {} : { signal })
  if (!succeeded) throw unreadable(path, stderr)
  const { streams = [], format = {} } = JSON.parse(new TextDecoder().decode(stdout)) as {
    streams?: ProbedStream[]
    format?: { format_name?: string; duration?: string; start_time?: string }
  }
  if (streams.some(({ codec_tag_string: tag = '' }) => PROTECTED_ENTRIES.has(tag))) throw protectedAudio(path)
  const sound = streams.find(({ codec_type: type }) => type === 'audio')
  if (sound === undefined) throw new AudioError('no_audio', 'there is no sound in it.', { path })
  return {
    format: format.format_name ?? 'unknown',
    codec: sound.codec_name ?? 'unknown',
    durationMs: milliseconds(sound.duration) ?? milliseconds(format.duration),
    startMs: Math.max(0, Number(sound.start_time) - Number(format.start_time)) * 1000 || 0,
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
