import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Readable, Writable } from 'node:stream'

import ffmpeg from 'fluent-ffmpeg'

import type { DecodePlan } from './plan-decode.ts'

/** Limits and place of the ffmpeg children. */
export interface FfmpegOptions {
  /** Absolute path of the binary; see `find-ffmpeg.ts`. */
  readonly ffmpegPath: string
  /** Wall-clock limit of one decode. */
  readonly timeLimitMs: number
  /** Address space of the child in bytes. ffmpeg 5.1 with Debian's 200 libraries needs 300 MB of it, 50 MB resident. */
  readonly memoryLimitBytes?: number
  /** Processor time of the child. An hour at the highest bitrate takes 4 s here. */
  readonly processorTimeLimitSeconds?: number
  /** Told the process id of every child, for tests and metrics. */
  readonly onSpawn?: (processId: number) => void
}

/** How a child ended. */
export interface FfmpegEnding {
  /** Per channel, at the plan's rate, the primer's included. */
  readonly decodedSamples: number
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly stoppedBy: 'count' | 'time' | 'caller' | undefined
  readonly stderr: string
  readonly elapsedMs: number
}

const defaultMemoryLimitBytes = 1_073_741_824
/** Used when no other is given. */
export const defaultProcessorTimeLimitSeconds = 20

// ffmpeg's own bound on a single allocation. Decoding MP3 needs kilobytes.
const maximumAllocationBytes = 67_108_864

const bytesPerSample = 2
const chunkBytes = 65_536

// `ulimit` is the shell's, so neither a package nor root is needed. `-c 0`: a core file would put the upload on disk in the
// clear. `-f 0`: no file can be written at all. `env -i`: the decoder of strangers' bytes sees none of our environment.
// Each limit is tried on its own, since macOS refuses `-v`. `exec` keeps the process id, so that SIGKILL meets ffmpeg.
const limitedExec = [
  'ulimit -c 0 2>/dev/null',
  'ulimit -f 0 2>/dev/null',
  'ulimit -v "$1" 2>/dev/null',
  'ulimit -t "$2" 2>/dev/null',
  'shift 2',
  'exec env -i MALLOC_ARENA_MAX=1 LC_ALL=C LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" "$@"',
].join('; ')

function shellArguments(options: FfmpegOptions): string[] {
  const memoryKib = Math.floor((options.memoryLimitBytes ?? defaultMemoryLimitBytes) / 1024)
  const seconds = options.processorTimeLimitSeconds ?? defaultProcessorTimeLimitSeconds
  return ['-c', limitedExec, 'sh', String(memoryKib), String(seconds), options.ffmpegPath]
}

const inputArguments = [
  ['-hide_banner', '-nostdin', '-nostats'],
  ['-v', 'fatal'],
  ['-max_error_rate', '1'],
  ['-max_alloc', String(maximumAllocationBytes)],
  ['-filter_threads', '1'],
  ['-threads', '1'],
  ['-protocol_whitelist', 'pipe'],
  // Count what the encoder's delay and padding hold too, as the frame walk does.
  ['-flags2', '+skip_manual'],
  ['-f', 'mp3'],
].flat()

function* chunksOf(audio: Uint8Array, plan: DecodePlan): Generator<Uint8Array> {
  yield plan.primer
  for (let offset = plan.offset; offset < audio.length; offset += chunkBytes) {
    yield audio.subarray(offset, offset + chunkBytes)
  }
}

interface LineRing {
  get: () => string
}
type OnProcess = (child: ChildProcess, stdout: LineRing, stderr: LineRing) => void
type OnEnd = (error: Error | undefined, stdout: LineRing, stderr: LineRing) => void

/** fluent-ffmpeg's members that its types leave out. The package is archived at 2.1.3, so they will not move. */
interface FluentInternals {
  readonly _getArguments: () => string[]
  readonly _spawnFfmpeg: (spawnArguments: string[], options: object, onProcess: OnProcess, onEnd: OnEnd) => void
}

const emptyRing: LineRing = { get: () => '' }

/**
 * Builds the command. Three private steps of fluent-ffmpeg are replaced: `_prepare`, which would start ffmpeg twice more
 * to list formats and encoders (60 ms each, outside all limits); `_getFfmpegPath`, whose cache is global to the process;
 * and around `_spawnFfmpeg` what it forgets when no process can be had (its handler then throws from an event). With
 * these in place `run` starts the child before it returns.
 */
function buildCommand(options: FfmpegOptions, plan: DecodePlan, streams: { input: Readable; output: Writable }) {
  const isWindows = process.platform === 'win32'
  const command = ffmpeg(streams.input)
    // The first input options are the first arguments of all. Given one by one, they are not split at spaces.
    .inputOptions(...(isWindows ? [] : shellArguments(options)), ...inputArguments)
    .outputOptions(['-map', '0:a:0', '-vn', '-sn', '-dn', '-map_metadata', '-1'])
    .outputOptions(['-ac', '1', '-ar', String(plan.sampleRate), '-c:a', 'pcm_s16le', '-f', 's16le'])
    // Written a buffer at a time rather than a frame at a time, which saves a fifth of the whole in wake-ups.
    .outputOptions(['-flush_packets', '0'])
    .output(streams.output)
  const internals = command as unknown as FluentInternals
  // oxlint-disable-next-line no-underscore-dangle
  const spawn = internals._spawnFfmpeg.bind(command)
  // oxlint-disable-next-line no-underscore-dangle
  const getArguments = internals._getArguments.bind(command)
  let child: ChildProcess | undefined
  Object.assign(command, {
    _prepare: (proceed: (error: null, commandArguments: string[]) => void) => proceed(null, getArguments()),
    _getFfmpegPath: (proceed: (error: null, path: string) => void) =>
      proceed(null, isWindows ? options.ffmpegPath : '/bin/sh'),
    _spawnFfmpeg: ((spawnArguments, spawnOptions, onProcess, onEnd) => {
      spawn(
        spawnArguments,
        spawnOptions,
        (spawned, stdout, stderr) => {
          child = spawned
          onProcess(spawned, stdout, stderr)
        },
        (error, stdout?: LineRing, stderr?: LineRing) => onEnd(error, stdout ?? emptyRing, stderr ?? emptyRing),
      )
    }) satisfies FluentInternals['_spawnFfmpeg'],
  })
  return { command, child: () => child }
}

/**
 * Runs one ffmpeg child over the upload, counts what it decodes and throws the PCM away.
 *
 * Resolves when the child is gone, whatever ended it: its own exit, a count beyond the plan's bound, the time limit or
 * `signal`. Rejects only when the operating system gives no process. Should this process die instead, the child meets the
 * end of its input and a closed output, and goes too.
 */
export async function runFfmpeg(
  options: FfmpegOptions,
  audio: Uint8Array,
  plan: DecodePlan,
  signal: AbortSignal | undefined,
): Promise<FfmpegEnding> {
  const started = performance.now()
  const maximumBytes = plan.maximumSamples * bytesPerSample
  let stoppedBy: FfmpegEnding['stoppedBy']
  let stderr = ''
  let decodedBytes = 0
  const stop = (reason: NonNullable<FfmpegEnding['stoppedBy']>) => {
    stoppedBy ??= reason
    child?.kill('SIGKILL')
  }
  const input = Readable.from(chunksOf(audio, plan), { objectMode: false })
  const output = new Writable({
    // fluent-ffmpeg takes the closing of its output for a failure.
    emitClose: false,
    autoDestroy: false,
    write(chunk: Uint8Array, _encoding, done) {
      decodedBytes += chunk.length
      if (decodedBytes > maximumBytes) stop('count')
      done()
    },
  })
  const built = buildCommand(options, plan, { input, output })
  // The child's own end is what is waited for; this event only must not go unheard.
  built.command.on('error', (_error: Error, _stdout: string | null, lines: string | null) => {
    stderr = lines ?? ''
  })
  built.command.run()
  const child = built.child()
  if (child?.pid === undefined)
    throw new Error(`the operating system started no process (${await spawnErrorOf(child)})`)
  options.onSpawn?.(child.pid)
  const timer = setTimeout(stop, options.timeLimitMs, 'time')
  const onAbort = () => stop('caller')
  signal?.addEventListener('abort', onAbort)
  try {
    const [exitCode] = (await once(child, 'close')) as [number | null]
    const elapsedMs = performance.now() - started
    return { decodedSamples: decodedBytes / bytesPerSample, exitCode, stoppedBy, stderr, elapsedMs }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    input.destroy()
  }
}

/** `EAGAIN`, `ENOMEM` and the like: names the limit of the machine that was met. */
async function spawnErrorOf(child: ChildProcess | undefined): Promise<string> {
  if (child === undefined) return 'unknown reason'
  const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException]
  return error.code ?? error.message
}
