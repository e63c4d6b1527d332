/** The measured parts of a paid request, in the order in which they happen. */
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
 * The allowed attributes of a span. Anything else does not compile, so prompts, results, signatures, keys, tokens and
 * capability URLs cannot be exported by accident.
 */
export interface SpanAttributes {
  requestId?: string
  jobId?: string
  operation?: string
  model?: string
  /** An error code, or the outcome of the port that was called. */
  outcome?: string
  status?: number
  deployment?: string
  payer?: string
  /** The hash of a settlement transaction. */
  transaction?: string
  /** Which claim of the job this is; 1 for the first. */
  fence?: string
}

/** Receives the duration of each stage and counts those in progress. */
export interface StageObserver {
  begun(stage: Stage): void
  ended(stage: Stage, operation: string, seconds: number): void
}

/** The request that some work is done for. */
export interface RequestOrigin {
  /** The `X-Request-ID` of the caller's response; `null` for jobs that were accepted before it was stored. */
  readonly requestId: string | null
  /** The trace context of the request; `null` when it is not traced. */
  readonly traceparent: string | null
}

/** One HTTP request, from its head to the end of its response. */
export interface RequestTrace {
  /** `null` when the request is not traced. */
  readonly traceId: string | null
  /** Runs `work` on behalf of the request, including everything asynchronous that it starts. */
  run<T>(work: () => T): T
  end(attributes: SpanAttributes): void
}

/** The request that the current asynchronous work belongs to. */
export interface CurrentRequest extends RequestOrigin {
  readonly traceId: string | null
}

/** The fields of a job that appear in its trace. */
export interface ContinuedJob {
  readonly id: string
  readonly origin: RequestOrigin
  readonly operation: string
  readonly publicModel: string
  readonly fence: bigint
  readonly waitedMs: number
}

/**
 * Tracks the request that the current work belongs to, measures its stages, and records spans of them where traces are
 * exported.
 */
export interface Tracer {
  startRequest(requestId: string, name: string, operation: string): RequestTrace
  /** Works on a job on behalf of the request that created it. Its wait is recorded as the stage `queue`. */
  continueRequest<T>(job: ContinuedJob, work: () => Promise<T>): Promise<T>
  /** Runs one stage of the current request; returns or throws what `work` does. */
  stage<T>(stage: Stage, work: () => Promise<T>, attributes?: SpanAttributes): Promise<T>
  /** Adds attributes to the active span. */
  describe(attributes: SpanAttributes): void
  current(): CurrentRequest | null
  /** Exports the remaining spans. */
  close(): Promise<void>
}

/** Runs a stage and records the outcome of its call in the span. */
export function describedStage<Outcome extends { readonly outcome: string }>(
  tracer: Tracer,
  stage: Stage,
  call: () => Promise<Outcome>,
  attributes?: SpanAttributes,
): Promise<Outcome> {
  const describedCall = async () => {
    const result = await call()
    tracer.describe({ outcome: result.outcome })
    return result
  }
  return tracer.stage(stage, describedCall, attributes)
}

/** A tracer that only runs the work. */
export const noTracing: Tracer = {
  startRequest: () => ({ traceId: null, run: (work) => work(), end: () => undefined }),
  continueRequest: (_job, work) => work(),
  stage: (_stage, work) => work(),
  describe: () => undefined,
  current: () => null,
  close: async () => undefined,
}
