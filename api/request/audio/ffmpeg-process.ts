import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { devNull } from 'node:os'
import { PassThrough, Readable } from 'node:stream'
import ffmpeg from 'fluent-ffmpeg'
import { CAREFUL_FFMPEG, LIMITING_SHELL, limitedArguments } from '#shared/runtime/limited-process.ts'
import type { DecodePlan } from './plan-decode.ts'
import { spawnDirectly } from './workarounds.ts'

/** Binary and limits of the ffmpeg child processes. */
export interface FfmpegOptions {
  /** Absolute path of the binary; see `shared/runtime/find-ffmpeg.ts`. */
  readonly ffmpegPath: string
  /** Wall-clock limit of one decode. */
  readonly timeLimitMs: number
  /** Address space of the child in bytes. */
  readonly memoryLimitBytes?: number
  /** Processor time of the child. An hour at the highest bitrate takes about 4 s. */
  readonly processorTimeLimitSeconds?: number
  /** Called with the process id of every child, for tests and metrics. */
  readonly onSpawn?: (processId: number) => void
}

/** How a child process ended. */
export interface FfmpegEnding {
  /** Per channel, at the plan's rate, including the primer. Undefined when ffmpeg reported no size of its output. */
  readonly decodedSamples: number | undefined
  /** Null when it was killed by a signal. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  /** `noise`: it wrote what ffmpeg never writes. */
  readonly stoppedBy: 'count' | 'time' | 'noise' | 'caller' | undefined
  readonly stderr: string
  readonly elapsedMs: number
}

/** The default of `processorTimeLimitSeconds`. */
export const DEFAULT_PROCESSOR_TIME_LIMIT_SECONDS = 20

const BYTES_PER_SAMPLE = 2
const CHUNK_BYTES = 65_536

/** ffmpeg reports its progress in 350 bytes, twice a second, and one fatal error. A child that writes this much is no ffmpeg. */
const MAXIMUM_OUTPUT_CHARACTERS = 1_048_576

function shellArguments({ ffmpegPath, memoryLimitBytes, processorTimeLimitSeconds }: FfmpegOptions): string[] {
  return limitedArguments(ffmpegPath, {
    ...(memoryLimitBytes === undefined ? {} : { memoryLimitBytes }),
    processorTimeLimitSeconds: processorTimeLimitSeconds ?? DEFAULT_PROCESSOR_TIME_LIMIT_SECONDS,
  })
}

const INPUT_ARGUMENTS = [
  CAREFUL_FFMPEG,
  ['-max_error_rate', '1'],
  // Also count the encoder's delay and padding, as the frame walk does.
  ['-flags2', '+skip_manual'],
  ['-f', 'mp3'],
].flat()

function* chunksOf(audio: Uint8Array, plan: DecodePlan): Generator<Uint8Array> {
  yield plan.primer
  for (let offset = plan.offset; offset < audio.length; offset += CHUNK_BYTES) {
    yield audio.subarray(offset, offset + CHUNK_BYTES)
  }
}

/** Builds the command. `run` starts the child, which `child` then returns, before it returns. */
function buildCommand(options: FfmpegOptions, known: DecodePlan | undefined, input: Readable) {
  const isWindows = process.platform === 'win32'
  const bounds = known
    ? ['-ar', String(known.sampleRate), '-fs', String(known.maximumSamples * BYTES_PER_SAMPLE + 1)]
    : []
  const command = ffmpeg(input)
    // The first input options become the first arguments of all. Options passed separately are not split at spaces.
    .inputOptions(...(isWindows ? [] : shellArguments(options)), ...INPUT_ARGUMENTS)
    .outputOptions(['-map', '0:a:0', '-vn', '-sn', '-dn', '-map_metadata', '-1'])
    .outputOptions(['-ac', '1', '-c:a', 'pcm_s16le', '-f', 's16le'])
    // The samples go nowhere: ffmpeg counts what it wrote, and stops by itself behind the bound. A pipe for them would
    // cost a fifteenth of the whole inspection. Buffers instead of frames are written, which saves system calls.
    .outputOptions(['-flush_packets', '0', ...bounds])
    .outputOptions(['-progress', 'pipe:1'])
    .output(devNull)
  const child = spawnDirectly(command, isWindows ? options.ffmpegPath : LIMITING_SHELL)
  return { command, child }
}

/** An ffmpeg child process that waits for an upload. It decodes one. */
export interface WaitingFfmpeg {
  /** Returns whether it still runs. */
  readonly isWaiting: () => boolean
  /**
   * Decodes the upload. ffmpeg discards the PCM and reports how much it was.
   *
   * Resolves when the child has exited, by itself or killed for exceeding the plan's bound, for the time limit or by
   * `signal`. Rejects only when no process could be started. If this process dies, the child reads the end of its input
   * and exits too.
   */
  readonly decode: (audio: Uint8Array, plan: DecodePlan, signal: AbortSignal | undefined) => Promise<FfmpegEnding>
  /** Ends it without an upload. */
  readonly end: () => void
}

/**
 * Starts an ffmpeg child process for the upload of a plan, or for a plain one that is not known yet: its output has the rate of
 * its input then, and it is stopped within half a second of exceeding its bound, instead of by itself.
 */
export function startFfmpeg(options: FfmpegOptions, known?: DecodePlan): WaitingFfmpeg {
  let stoppedBy: FfmpegEnding['stoppedBy']
  let stderr = ''
  let decodedBytes: number | undefined
  let maximumBytes = Number.POSITIVE_INFINITY
  const input = new PassThrough()
  const built = buildCommand(options, known, input)
  // The exit of the child is awaited below; without a listener this event would throw.
  built.command.on('error', (_error: Error, _stdout: string | null, lines: string | null) => {
    stderr = lines ?? ''
  })
  let failure: unknown
  try {
    built.command.run()
  } catch (error) {
    // Node.js throws when there is no memory for a process, and emits an event when there are too many.
    failure = error
  }
  const child = built.child()
  if (child?.pid !== undefined) options.onSpawn?.(child.pid)
  const stop = (reason: NonNullable<FfmpegEnding['stoppedBy']>) => {
    stoppedBy ??= reason
    child?.kill('SIGKILL')
  }
  const readProgress = createProgressReader((bytes) => {
    decodedBytes = bytes
    if (bytes > maximumBytes) stop('count')
  })
  let outputCharacters = 0
  const stopIfNoise = ({ length }: string) => {
    outputCharacters += length
    if (outputCharacters > MAXIMUM_OUTPUT_CHARACTERS) stop('noise')
  }
  child?.stderr?.on('data', stopIfNoise)
  child?.stdout?.setEncoding('latin1').on('data', (text: string) => {
    stopIfNoise(text)
    if (stoppedBy !== 'noise') readProgress(text)
  })
  return {
    isWaiting: () => child?.pid !== undefined && child.exitCode === null && child.signalCode === null,
    end: () => child?.kill('SIGKILL'),
    decode: async (audio, plan, signal) => {
      const started = performance.now()
      if (child?.pid === undefined) {
        const reason = child ? await spawnErrorOf(child) : String(failure)
        throw new Error(`the operating system could not start a process (${reason})`)
      }
      maximumBytes = plan.maximumSamples * BYTES_PER_SAMPLE
      Readable.from(chunksOf(audio, plan), { objectMode: false }).pipe(input)
      const timer = setTimeout(stop, options.timeLimitMs, 'time')
      const onAbort = () => stop('caller')
      signal?.addEventListener('abort', onAbort)
      try {
        const [exitCode, ended] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
        const elapsedMs = performance.now() - started
        const decodedSamples = decodedBytes === undefined ? undefined : decodedBytes / BYTES_PER_SAMPLE
        return { decodedSamples, exitCode, signal: ended, stoppedBy, stderr, elapsedMs }
      } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        input.destroy()
      }
    },
  }
}

/** Returns the error code (`EAGAIN`, `ENOMEM`, …), which names the machine's limit that was reached. */
async function spawnErrorOf(child: ChildProcess): Promise<string> {
  const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException]
  return error.code ?? error.message
}

/** The longest line that is kept until its end arrives. ffmpeg's own have at most 60 characters. */
const MAXIMUM_LINE_CHARACTERS = 256

const SIZE_LINE = /^total_size=(\d{1,15})\s*$/

/**
 * Creates the reader of what `ffmpeg -progress` writes: a few lines twice a second and at the end. `onSize` is called
 * with each size of the output so far, in bytes; what else the child writes is ignored, however much it is.
 */
function createProgressReader(onSize: (bytes: number) => void): (text: string) => void {
  let incomplete = ''
  return (text) => {
    const lines = (incomplete + text).split('\n')
    incomplete = (lines.pop() ?? '').slice(0, MAXIMUM_LINE_CHARACTERS)
    for (const line of lines) {
      const [, bytes] = SIZE_LINE.exec(line) ?? []
      if (bytes !== undefined) onSize(Number(bytes))
    }
  }
}
