import { AsyncLocalStorage } from 'node:async_hooks'
import type { RequestOrigin } from '#shared/jobs/job.ts'

/** The parts of a paid request whose time is measured, in the order in which they come. */
export type Stage =
  | 'validate'
  | 'quote'
  | 'verify'
  | 'accept'
  | 'hold'
  | 'queue'
  | 'check'
  | 'provider'
  | 'seal'
  | 'sign'
  | 'settle'
  | 'broadcast'
  | 'confirm'
  | 'commit'

/**
 * What may stand in a span. Anything else a caller passes does not compile, so that prompts, results, signatures, keys, tokens and
 * capability URLs cannot be exported by accident.
 */
export interface SpanAttributes {
  requestId?: string
  jobId?: string
  operation?: string
  model?: string
  /** How it ended, in the words of the error table or of the port that was called. */
  outcome?: string
  status?: number
  deployment?: string
  payer?: string
  /** The hash of a settlement's transaction. */
  transaction?: string
  /** Which claim of the job this is; 1 for the first. */
  fence?: string
}

/** One span that is being recorded. */
export interface RecordedSpan {
  readonly traceId: string
  readonly traceparent: string
  startChild(name: string, attributes: SpanAttributes): RecordedSpan
  describe(attributes: SpanAttributes): void
  /** With what was thrown, if anything was. Of it only the code or the type is kept. */
  end(thrown?: unknown): void
}

/** Records spans and exports them. */
export interface SpanRecorder {
  startRequest(name: string, attributes: SpanAttributes): RecordedSpan
  /** A part of a trace that another process began. */
  startJob(traceparent: string | null, name: string, attributes: SpanAttributes, startedAt?: Date): RecordedSpan
  close(): Promise<void>
}

/** Told how long each stage took, and how many are under way. */
export interface StageObserver {
  begun(stage: Stage): void
  ended(stage: Stage, operation: string, seconds: number): void
}

/** One HTTP request, from its head to the end of its answer. */
export interface RequestTrace {
  /** `null` when it is not traced. */
  readonly traceId: string | null
  /** Whatever `work` starts belongs to the request. */
  run<T>(work: () => T): T
  end(attributes: SpanAttributes): void
}

/** The present request, wherever in its asynchronous work it is asked for. */
export interface PresentRequest extends RequestOrigin {
  readonly traceId: string | null
}

/** What of a job stands in its trace. */
export interface ContinuedJob {
  readonly id: string
  readonly origin: RequestOrigin
  readonly operation: string
  readonly publicModel: string
  readonly fence: bigint
  readonly waitedMs: number
}

/** Knows which request the present work is for, measures its stages, and records spans of them when there is a recorder. */
export interface Tracer {
  startRequest(requestId: string, name: string, operation: string): RequestTrace
  /** Works on a job in the name of the request that it was accepted from. Its wait is the stage `queue`, which is over. */
  continueRequest<T>(job: ContinuedJob, work: () => Promise<T>): Promise<T>
  /** Runs one stage of the present request; gives what `work` gives and throws what it throws. */
  stage<T>(stage: Stage, work: () => Promise<T>, attributes?: SpanAttributes): Promise<T>
  /** Says more of the present span. */
  describe(attributes: SpanAttributes): void
  present(): PresentRequest | null
  /** Exports what is left. */
  close(): Promise<void>
}

interface Scope {
  readonly requestId: string | null
  readonly operation: string
  readonly span: RecordedSpan | null
  /** Of the request as a whole, whatever stage it is in. */
  readonly traceparent: string | null
}

/** Without a recorder nothing is traced; requests and stages are known and measured all the same. */
export function createTracer(recorder: SpanRecorder | null, observer: StageObserver): Tracer {
  const scopes = new AsyncLocalStorage<Scope>()
  return {
    startRequest: (requestId, name, operation) => {
      const span = recorder?.startRequest(name, { requestId, operation }) ?? null
      return {
        traceId: span?.traceId ?? null,
        run: (work) => scopes.run({ requestId, operation, span, traceparent: span?.traceparent ?? null }, work),
        end: (attributes) => {
          span?.describe(attributes)
          span?.end()
        },
      }
    },
    continueRequest: (job, work) => {
      const { origin, operation, publicModel, fence, waitedMs } = job
      const { requestId, traceparent } = origin
      observer.begun('queue')
      observer.ended('queue', operation, waitedMs / 1000)
      const attributes = {
        ...(requestId === null ? {} : { requestId }),
        jobId: job.id,
        operation,
        model: publicModel,
        fence: fence.toString(),
      }
      recorder?.startJob(traceparent, 'queue', attributes, new Date(Date.now() - waitedMs)).end()
      const span = recorder?.startJob(traceparent, 'run job', attributes) ?? null
      return scopes.run({ requestId, operation, span, traceparent }, () => (span ? endAfter(span, work) : work()))
    },
    stage: async (stage, work, attributes = {}) => {
      const scope = scopes.getStore()
      const startedAt = performance.now()
      observer.begun(stage)
      try {
        if (!scope?.span) return await work()
        const span = scope.span.startChild(stage, attributes)
        return await scopes.run({ ...scope, span }, () => endAfter(span, work))
      } finally {
        observer.ended(stage, scope?.operation ?? 'none', (performance.now() - startedAt) / 1000)
      }
    },
    describe: (attributes) => scopes.getStore()?.span?.describe(attributes),
    present: () => {
      const scope = scopes.getStore()
      if (!scope) return null
      const { requestId, traceparent, span } = scope
      return { requestId, traceparent, traceId: span?.traceId ?? null }
    },
    close: async () => recorder?.close(),
  }
}

async function endAfter<T>(span: RecordedSpan, work: () => Promise<T>): Promise<T> {
  try {
    const result = await work()
    span.end()
    return result
  } catch (error) {
    span.end(error)
    throw error
  }
}

/** For work that nobody measures. */
export const noTracing: Tracer = {
  startRequest: () => ({ traceId: null, run: (work) => work(), end: () => undefined }),
  continueRequest: (_job, work) => work(),
  stage: (_stage, work) => work(),
  describe: () => undefined,
  present: () => null,
  close: async () => undefined,
}
