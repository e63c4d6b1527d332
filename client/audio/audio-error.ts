import { FareboxError } from '../wire/farebox-error.ts'

/** Sample entries of encrypted tracks: FairPlay, Common Encryption, Audible. */
export const PROTECTED_ENTRIES: ReadonlySet<string> = new Set(['drms', 'drmi', 'enca', 'encv', 'aavd', 'aaxc'])

/** From the name of a table of sample entries to the name of its first entry: version, count, and size of the entry. */
const FIRST_ENTRY = 16

export type AudioErrorCode =
  | 'file_not_found'
  | 'file_unreadable'
  | 'not_a_file'
  | 'empty_file'
  | 'file_changed'
  | 'no_audio'
  | 'audio_too_short'
  | 'not_audio'
  | 'protected_audio'
  | 'damaged_audio'
  | 'ffmpeg_missing'
  | 'ffmpeg_failed'
  | 'disk_full'
  | 'folder_unwritable'

const INSTALL_FFMPEG =
  'Install ffmpeg: "apt-get install ffmpeg" (Debian, Ubuntu), "brew install ffmpeg" (macOS), "winget install ffmpeg" (Windows).'

const ADVICE: Record<AudioErrorCode, string> = {
  file_not_found: 'Check the path: the file may have been moved or renamed since it was found.',
  file_unreadable: 'Check the permissions of the file and of its folder.',
  not_a_file: 'Name a regular file.',
  empty_file: 'Copy or record it again.',
  file_changed: 'Wait until nothing writes to the file, then run the command again.',
  no_audio: 'Name a recording with sound.',
  audio_too_short: 'Leave it out, or join it with what was recorded before or after it.',
  not_audio: 'Name a recording; the ending of a name does not make one.',
  protected_audio: 'Get a copy without copy protection from its publisher.',
  damaged_audio: 'Copy or export it again from its original.',
  ffmpeg_missing: INSTALL_FFMPEG,
  ffmpeg_failed: 'Try the command of the cause by hand.',
  disk_full: 'Free space there, or let TMPDIR name a folder on another disk, then run the command again.',
  folder_unwritable: 'Make the folder writable, or let TMPDIR name another one, then run the command again.',
}

interface AudioErrorDetails {
  readonly path: string
  readonly advice?: string
  readonly cause?: unknown
}

/** A recording that cannot be sent. Nothing of it was sent, so no money can have moved. */
export class AudioError extends FareboxError {
  override readonly name = 'AudioError'
  declare readonly code: AudioErrorCode
  readonly path: string
  readonly #problem: string

  constructor(code: AudioErrorCode, problem: string, { path, advice = ADVICE[code], cause }: AudioErrorDetails) {
    super({ code, problem: `${path}: ${problem}`, money: 'none', advice, cause })
    this.path = path
    this.#problem = problem
  }

  /** Returns the same error about another path. */
  at(path: string): AudioError {
    const { code, advice, cause } = this
    return new AudioError(code, this.#problem, { path, advice, cause })
  }
}

type BySystemCode = Readonly<Record<string, [code: AudioErrorCode, problem: string]>>

const WHEN_READ: BySystemCode = {
  ENOENT: ['file_not_found', 'there is no such file.'],
  ENOTDIR: ['file_not_found', 'there is no such file.'],
  EISDIR: ['not_a_file', 'it is a folder.'],
}
const WHEN_WRITTEN: BySystemCode = {
  ENOSPC: ['disk_full', 'the disk is full.'],
  EDQUOT: ['disk_full', 'the quota of the disk is used up.'],
  EFBIG: ['disk_full', 'the file is larger than the system permits.'],
}

/** Returns the error for a recording with copy protection. */
export function protectedAudio(path: string): AudioError {
  return new AudioError('protected_audio', 'the recording is copy-protected (DRM), so no program can convert it.', {
    path,
  })
}

/** Returns the error for an MP3 in free format. */
export function freeFormatAudio(path: string): AudioError {
  const advice =
    'Run "mpg123 -q --mono -r 44100 -w - input.mp3 > decoded.wav", or "lame --decode input.mp3 decoded.wav" where all of it has one sample rate, then name decoded.wav.'
  return new AudioError('not_audio', 'it has MP3 frames in free format, which ffmpeg does not decode.', {
    path,
    advice,
  })
}

/** Returns the error for what the file system reported when a path was read. */
export function fileError(path: string, cause: unknown): AudioError {
  if (cause instanceof AudioError) return cause
  const code = systemCode(cause)
  const [kind, problem] = WHEN_READ[code] ?? ['file_unreadable', `it cannot be read (${code}).`]
  return new AudioError(kind, problem, { path, cause })
}

/** Returns the error for what the file system reported when a prepared recording was written. */
export function writeError(path: string, cause: unknown): AudioError {
  if (cause instanceof AudioError) return cause
  const code = systemCode(cause)
  const [kind, problem] = WHEN_WRITTEN[code] ?? ['folder_unwritable', `it cannot be written (${code}).`]
  return new AudioError(kind, problem, { path, cause })
}

function systemCode(cause: unknown): string {
  const { code = 'unknown error' } = cause as NodeJS.ErrnoException
  return code
}

/**
 * Returns whether an MP4 has an encrypted track. ffprobe does not show it for Common Encryption: it names the format
 * below the encryption, and what is then decoded is noise. Source: ISO/IEC 14496-12 section 8.5.2.
 */
export function hasProtectedTrack(mp4: Uint8Array): boolean {
  const bytes = Buffer.from(mp4.buffer, mp4.byteOffset, mp4.byteLength)
  for (let at = bytes.indexOf('stsd'); at >= 0; at = bytes.indexOf('stsd', at + 1))
    if (PROTECTED_ENTRIES.has(bytes.toString('latin1', at + FIRST_ENTRY, at + FIRST_ENTRY + 4))) return true
  return false
}
