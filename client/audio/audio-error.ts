export type AudioErrorCode =
  | 'file_not_found'
  | 'file_unreadable'
  | 'not_a_file'
  | 'empty_file'
  | 'file_changed'
  | 'no_audio'
  | 'not_audio'
  | 'protected_audio'
  | 'damaged_audio'
  | 'ffmpeg_missing'
  | 'ffmpeg_failed'

const INSTALL_FFMPEG =
  'Install ffmpeg: "apt-get install ffmpeg" (Debian, Ubuntu), "brew install ffmpeg" (macOS), "winget install ffmpeg" (Windows).'

const ADVICE: Record<AudioErrorCode, string> = {
  file_not_found: 'Check the path: the file may have been moved or renamed since it was found.',
  file_unreadable: 'Check the permissions of the file and of its folder.',
  not_a_file: 'Name a regular file.',
  empty_file: 'Copy or record it again.',
  file_changed: 'Wait until nothing writes to the file, then run the command again.',
  no_audio: 'Name a recording with sound.',
  not_audio: 'Name a recording; the ending of a name does not make one.',
  protected_audio: 'Get a copy without copy protection from its publisher.',
  damaged_audio: 'Copy or export it again from its original.',
  ffmpeg_missing: INSTALL_FFMPEG,
  ffmpeg_failed: 'Try the command of the cause by hand; free disk space may be what is missing.',
}

interface AudioErrorDetails {
  readonly path: string
  readonly advice?: string
  readonly cause?: unknown
}

/** A recording that cannot be sent. Nothing of it was sent, so no money can have moved. */
export class AudioError extends Error {
  override readonly name = 'AudioError'
  readonly code: AudioErrorCode
  readonly path: string
  readonly advice: string
  readonly money = 'none'

  constructor(code: AudioErrorCode, problem: string, { path, advice = ADVICE[code], cause }: AudioErrorDetails) {
    super(`${path}: ${problem} Nothing was sent or charged. ${advice}`, cause === undefined ? {} : { cause })
    this.code = code
    this.path = path
    this.advice = advice
  }
}

const BY_SYSTEM_CODE: Record<string, [code: AudioErrorCode, problem: string]> = {
  ENOENT: ['file_not_found', 'there is no such file.'],
  ENOTDIR: ['file_not_found', 'there is no such file.'],
  EISDIR: ['not_a_file', 'it is a folder.'],
}

/** Returns the error for what the file system reported about a path. */
export function fileError(path: string, cause: unknown): AudioError {
  if (cause instanceof AudioError) return cause
  const { code = 'unknown error' } = cause as NodeJS.ErrnoException
  const [kind, problem] = BY_SYSTEM_CODE[code] ?? ['file_unreadable' as const, `it cannot be read (${code}).`]
  return new AudioError(kind, problem, { path, cause })
}
