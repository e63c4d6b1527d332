/** Limits of a child process that reads what others wrote. */
export interface ProcessLimits {
  /** Address space in bytes. ffmpeg 5.1 with Debian's 200 libraries needs 300 MB of it, 50 MB resident. */
  readonly memoryLimitBytes?: number
  readonly processorTimeLimitSeconds: number
}

const DEFAULT_MEMORY_LIMIT_BYTES = 1_073_741_824

// `ulimit` is a shell builtin, so neither a package nor root is needed. `-c 0`: a core file would write the audio to
// disk unencrypted. `-f 0`: no file can be written. `env -i`: the decoder of untrusted bytes sees none of this
// process's environment. Each limit is set separately, since macOS rejects `-v`. `exec` keeps the process id, so that
// SIGKILL reaches the program.
const LIMITED_EXEC = [
  'ulimit -c 0 2>/dev/null',
  'ulimit -f 0 2>/dev/null',
  'ulimit -v "$1" 2>/dev/null',
  'ulimit -t "$2" 2>/dev/null',
  'shift 2',
  'exec env -i MALLOC_ARENA_MAX=1 LC_ALL=C LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" "$@"',
].join('; ')

/** The shell that starts a program within limits. */
export const LIMITING_SHELL = '/bin/sh'

/** Returns the arguments of `LIMITING_SHELL`, to which those of the program are added. */
export function limitedArguments(programPath: string, limits: ProcessLimits): string[] {
  const { memoryLimitBytes = DEFAULT_MEMORY_LIMIT_BYTES, processorTimeLimitSeconds } = limits
  const memoryKib = Math.floor(memoryLimitBytes / 1024)
  return ['-c', LIMITED_EXEC, 'sh', String(memoryKib), String(processorTimeLimitSeconds), programPath]
}

// ffmpeg's own bound on a single allocation. Audio needs kilobytes.
const MAXIMUM_ALLOCATION_BYTES = 67_108_864

/** The first arguments of every ffmpeg that reads what others wrote. */
export const CAREFUL_FFMPEG = [
  ['-hide_banner', '-nostdin', '-nostats'],
  ['-v', 'fatal'],
  ['-max_alloc', String(MAXIMUM_ALLOCATION_BYTES)],
  ['-filter_threads', '1'],
  ['-threads', '1'],
  ['-protocol_whitelist', 'pipe'],
].flat()
