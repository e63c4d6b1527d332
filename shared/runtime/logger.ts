import { pino } from 'pino'
import { StartFailure } from './start-process.ts'

/**
 * The allowed fields of a log line. Anything else does not compile, so prompts, audio, signatures, keys, tokens and
 * capability URLs cannot be logged by accident.
 */
export interface LogFields {
  requestId?: string
  traceId?: string
  jobId?: string
  allowanceId?: string
  operation?: string
  method?: string
  /** The pattern of the route, never the URL. */
  route?: string
  status?: number
  code?: string
  state?: string
  durationMs?: number
  deployment?: string
  /** The public address of a settlement key. */
  facilitator?: string
  /** The name of an account of the console. */
  operator?: string
  /** The end of the audit, as `npm run ledger -- --audit-head` takes it. */
  auditHead?: string
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
  /** Returns the request of the current work. Each line names it, unless its own fields name another. */
  readonly currentRequest?: () => { readonly requestId: string | null; readonly traceId: string | null } | null
}

/** One write per line would cost a system call per request and wake the reader each time. A pipe holds twice as much. */
const BUFFER_CHARACTERS = 32_768
const FLUSH_EVERY_MS = 100

/**
 * Writes one JSON object per line to standard output. Info lines are buffered (32 KiB or 100 ms); warnings and errors
 * flush immediately, and the process flushes when it exits.
 */
export function createLogger({ currentRequest = () => null, ...options }: LoggerOptions): Logger {
  const { write, flush } = createBufferedOutput()
  process.on('exit', flush)
  const log = pino(
    {
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: createTimestamp(),
      serializers: { error: describeError },
      mixin: () => {
        const request = currentRequest()
        return request
          ? {
              ...(request.requestId && { requestId: request.requestId }),
              ...(request.traceId && { traceId: request.traceId }),
            }
          : {}
      },
    },
    { write },
  )
  return {
    info: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => {
      log.warn(fields, message)
      flush()
    },
    error: (message, fields = {}) => {
      log.error(fields, message)
      flush()
    },
  }
}

/**
 * Collects lines, and hands them to the output in one piece. The destination's own buffer measures the whole of it again
 * with each line.
 */
function createBufferedOutput(): { readonly write: (line: string) => void; readonly flush: () => void } {
  const output = pino.destination({ sync: true })
  let lines = ''
  const flush = () => {
    if (lines === '') return
    const written = lines
    lines = ''
    output.write(written)
  }
  setInterval(flush, FLUSH_EVERY_MS).unref()
  return {
    write: (line) => {
      lines += line
      if (lines.length >= BUFFER_CHARACTERS) flush()
    },
    flush,
  }
}

/** Returns pino's `time` member. Lines of one millisecond share its text. */
function createTimestamp(): () => string {
  let [at, text] = [Number.NaN, '']
  return () => {
    const now = Date.now()
    if (now !== at) [at, text] = [now, `,"time":"${new Date(now).toISOString()}"`]
    return text
  }
}

/**
 * Keeps type, code, HTTP status, stack and causes, never the other properties that libraries attach to errors
 * (statements, bodies, URLs).
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return {
    type: error.name,
    code,
    status: httpStatusOf(error),
    message: firstLine(error),
    frames: framesOf(error),
    cause: error.cause === undefined ? undefined : describeError(error.cause),
  }
}

/** The HTTP status of the answer that an error is about. The S3 SDK calls an answer without a body `UnknownError`. */
function httpStatusOf(error: Error): number | undefined {
  const { status, $metadata } = error as { status?: unknown; $metadata?: { httpStatusCode?: unknown } }
  return [status, $metadata?.httpStatusCode].find((value) => typeof value === 'number')
}

/** Skips the message, which the stack repeats before its frames and which may contain lines that look like frames. */
function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message)
  return stack
    .slice(start < 0 ? 0 : start + message.length)
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .slice(0, 8)
}

/**
 * Keeps the first line only: viem puts URLs and request bodies on the others. Our own messages about settings end with
 * what to do.
 */
function firstLine(error: Error): string {
  const [line = ''] = error.message.split('\n', 1)
  return error instanceof StartFailure ? line : line.slice(0, 200)
}
