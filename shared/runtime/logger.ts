import { pino } from 'pino'

/**
 * What may stand in a log line. Anything else a caller passes does not compile, so that prompts, audio, signatures, keys,
 * tokens and capability URLs cannot reach the log by accident.
 */
export interface LogFields {
  requestId?: string
  traceId?: string
  jobId?: string
  operation?: string
  method?: string
  /** The route's pattern, never the URL. */
  route?: string
  status?: number
  code?: string
  state?: string
  durationMs?: number
  deployment?: string
  /** The public address of a settlement key. */
  facilitator?: string
  reason?: string
  count?: number
  error?: unknown
}

export interface Logger {
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

export interface LoggerOptions {
  readonly process: string
  readonly level: LogLevel
  /** The request that the present work is for: each line names it, unless it names another one itself. */
  readonly presentRequest?: () => { readonly requestId: string | null; readonly traceId: string | null } | null
}

/** A write for each line is a system call for each request, and wakes whoever reads. */
const LINES_TOGETHER_BYTES = 4096
const LATEST_AFTER_MS = 100

/**
 * One JSON object per line on standard output. What is only told is written some lines at a time and a moment later; a warning or
 * an error at once with everything before it, and so are the last lines, whatever way the process ends that it can notice.
 */
export function createLogger({ presentRequest = () => null, ...options }: LoggerOptions): Logger {
  const output = pino.destination({ sync: true, minLength: LINES_TOGETHER_BYTES, periodicFlush: LATEST_AFTER_MS })
  // Not `flushSync`: that never returns when nobody reads the output any more, and waits for a disk. `sync` writes at once anyway.
  const writeOut = () => output.flush()
  process.on('exit', writeOut)
  const log = pino(
    {
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { error: describeError },
      mixin: () => {
        const { requestId, traceId } = presentRequest() ?? {}
        return { ...(requestId && { requestId }), ...(traceId && { traceId }) }
      },
    },
    output,
  )
  return {
    info: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => {
      log.warn(fields, message)
      writeOut()
    },
    error: (message, fields = {}) => {
      log.error(fields, message)
      writeOut()
    },
  }
}

/** Type, code, stack and causes; never the properties that libraries hang on their errors (statements, bodies, URLs). */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return {
    type: error.name,
    code,
    message: firstLine(error.message),
    frames: framesOf(error),
    cause: error.cause === undefined ? undefined : describeError(error.cause),
  }
}

/** The stack repeats the whole message before its frames, and a line of that may look like a frame. */
function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message)
  return stack
    .slice(start < 0 ? 0 : start + message.length)
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .slice(0, 8)
}

/** viem puts URLs and request bodies on the lines after the first. */
function firstLine(message: string): string {
  return message.split('\n', 1)[0]?.slice(0, 200) ?? ''
}
