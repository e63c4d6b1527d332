import { type AudioLimits, type AudioPrices, longestAtMinimumMs } from '../limits.ts'

/** What decides whether and with which others a clip is packed. */
export interface Clip {
  readonly durationMs: number
  readonly bytes: number
  /** Only clips with equal keys can be joined; undefined for one that cannot be joined. */
  readonly streamKey: string | number | undefined
}

export interface PackOptions {
  readonly limits: AudioLimits
  readonly prices: AudioPrices
  /** The longest pack, if it should be shorter than the limit: shorter packs are transcribed in parallel. */
  readonly maximumPackMs?: number
}

export interface PackPlan<C extends Clip> {
  /** Each has at least two clips, in their order. */
  readonly packs: readonly (readonly C[])[]
  /** Clips that are sent as they are. */
  readonly single: readonly C[]
}

/** Long enough that no transcription joins a clip's last word with the first one of the next. */
export const DEFAULT_GAP_MS = 1000
/** The gap is rounded up to whole frames, the longest of which has 72 ms. */
const LONGEST_FRAME_MS = 72
/** The smallest frame with side information has 144 bytes in 24 ms. */
const GAP_BYTES_PER_MS = 9

/**
 * Plans packs of the clips that are so short that the minimum charge costs more than their seconds. The clips of a pack
 * keep their order, and the same clips result in the same packs.
 */
export function planPacks<C extends Clip>(clips: readonly C[], options: PackOptions): PackPlan<C> {
  const { prices, limits } = options
  const longestMs = longestAtMinimumMs(prices)
  const maximumMs = Math.min(limits.maximumDurationMs, options.maximumPackMs ?? Number.POSITIVE_INFINITY)
  const addedMs = DEFAULT_GAP_MS + LONGEST_FRAME_MS
  const open = new Map<string | number, { clips: C[]; durationMs: number; bytes: number }>()
  const closed: C[][] = []
  for (const clip of clips) {
    // A clip that is as long as the minimum pays for would cost more in a pack, by its gap.
    if (clip.streamKey === undefined || clip.durationMs + addedMs >= longestMs) {
      closed.push([clip])
      continue
    }
    const durationMs = clip.durationMs + addedMs
    const bytes = clip.bytes + addedMs * GAP_BYTES_PER_MS
    const pack = open.get(clip.streamKey)
    if (pack && pack.durationMs + durationMs <= maximumMs && pack.bytes + bytes <= limits.maximumBytes) {
      pack.clips.push(clip)
      pack.durationMs += durationMs
      pack.bytes += bytes
    } else {
      const next = { clips: [clip], durationMs, bytes }
      closed.push(next.clips)
      open.set(clip.streamKey, next)
    }
  }
  return {
    packs: closed.filter(({ length }) => length > 1),
    single: closed.filter(({ length }) => length === 1).flat(),
  }
}
