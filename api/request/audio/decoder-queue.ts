import { type ClientGroups, createFairPool, overloaded, UNPAID_SHARE } from '../fair-pool.ts'

/** The caller whose upload needs a decoder. */
export interface DecoderCaller {
  readonly client: ClientGroups
  /** Whether the slots that are kept for payers who have paid before are open to this caller. */
  readonly hasPriority: boolean
}

export interface DecoderLimits {
  /** Limit of concurrent decodes. */
  readonly concurrency: number
  /** Limit of uploads that wait for a decoder; each keeps its bytes in memory. */
  readonly maximumWaiting: number
}

/** Shares the decoders among clients. */
export interface DecoderQueue {
  /** Runs a decode of this much audio in its turn. Throws `overloaded` when too many wait. */
  run<Result>(caller: DecoderCaller, durationMs: number, decode: () => Promise<Result>): Promise<Result>
  /** Returns the seconds until the caller may find a slot to wait, or `null` when there is one now. */
  readonly retryAfterSeconds: (caller: DecoderCaller) => number | null
  /** Returns how many decodes are running and waiting, and how many may run. */
  readonly load: () => { readonly busy: number; readonly waiting: number; readonly slots: number }
}

/** The time to decode half an hour of stereo, alone on one core, rounded up. */
const SECONDS_PER_DECODE = 2

/** Longer audio, which takes a third of a second or more, leaves one decoder to shorter audio. */
const LONG_AUDIO_MS = 300_000

/**
 * Milliseconds of audio that each millisecond of waiting is worth: an hour of audio is overtaken by new uploads for at
 * most 36 seconds.
 */
const AGING_MS = 100

interface Waiting {
  readonly caller: DecoderCaller
  readonly durationMs: number
  readonly since: number
  readonly start: () => void
}

/**
 * Creates the queue. The next decode is the one with the least audio, counted with all audio of the same client that is
 * being decoded, so that clients take turns and short uploads are not delayed by long ones. Waiting counts in favor of
 * an upload, so that the longest is decoded too. `now` is monotonic, in milliseconds.
 */
export function createDecoderQueue(
  { concurrency, maximumWaiting }: DecoderLimits,
  now: () => number = () => performance.now(),
): DecoderQueue {
  const slots = createFairPool(maximumWaiting)
  const decoding = createFairPool(Number.POSITIVE_INFINITY)
  const waiting = new Set<Waiting>()
  let busy = 0
  let busyWithLong = 0

  const mayStart = (durationMs: number) =>
    busy < concurrency && !(isLong(durationMs) && concurrency > 1 && busyWithLong >= concurrency - 1)
  const weightedAudioMs = ({ caller, durationMs, since }: Waiting) =>
    durationMs + decoding.usedBy(caller.client[0] ?? '') - AGING_MS * (now() - since)

  function startNext(): void {
    const [first, ...others] = [...waiting].filter(({ durationMs }) => mayStart(durationMs))
    if (!first) return
    const next = others.reduce((best, other) => (weightedAudioMs(other) < weightedAudioMs(best) ? other : best), first)
    waiting.delete(next)
    slots.release(next.caller.client, 1)
    next.start()
  }

  /** Waits for a decoder that `occupy` has already taken when the promise resolves. */
  function wait(caller: DecoderCaller, durationMs: number): Promise<void> {
    slots.take(caller.client, 1)
    return new Promise((resolve) => {
      const start = () => {
        occupy(caller, durationMs)
        resolve()
      }
      waiting.add({ caller, durationMs, since: now(), start })
    })
  }

  function occupy({ client }: DecoderCaller, durationMs: number): void {
    busy += 1
    busyWithLong += isLong(durationMs) ? 1 : 0
    decoding.take(client, durationMs)
  }

  function vacate({ client }: DecoderCaller, durationMs: number): void {
    busy -= 1
    busyWithLong -= isLong(durationMs) ? 1 : 0
    decoding.release(client, durationMs)
  }

  function retryAfterSeconds({ client, hasPriority }: DecoderCaller, durationMs = 0): number | null {
    if (mayStart(durationMs)) return null
    if (maximumWaiting > 0 && slots.fits(client, 1, hasPriority ? 1 : UNPAID_SHARE)) return null
    return Math.ceil(((waiting.size + 1) / concurrency) * SECONDS_PER_DECODE)
  }

  return {
    retryAfterSeconds: (caller) => retryAfterSeconds(caller),
    load: () => ({ busy, waiting: waiting.size, slots: concurrency }),
    run: async (caller, durationMs, decode) => {
      const seconds = retryAfterSeconds(caller, durationMs)
      if (seconds !== null) throw overloaded('Every audio decoder is busy.', seconds)
      // Uploads that could start never wait, so this one overtakes none of them.
      if (mayStart(durationMs)) occupy(caller, durationMs)
      else await wait(caller, durationMs)
      try {
        return await decode()
      } finally {
        vacate(caller, durationMs)
        startNext()
      }
    },
  }
}

function isLong(durationMs: number): boolean {
  return durationMs > LONG_AUDIO_MS
}
