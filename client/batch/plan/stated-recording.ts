import type { AudioLimits, ExpectedRecording } from '../../audio/audio.ts'
import type { StatedRecording } from './plan-cache.ts'

/** How much longer than its file states an upload may be: by the encoder's delay, its last frame and a lead-in frame. */
const MARGIN_MS = 250
/** How much of the longest part a part has at least, because it ends at a pause before the limit. */
const SHORTEST_SHARE = 0.8

/** Returns a recording as it is priced before it is prepared, with uploads that are not too short. */
export function statedRecording(
  { source, treatment, statedMs, warnings }: ExpectedRecording,
  { maximumDurationMs, maximumBytes }: AudioLimits,
): StatedRecording {
  const isOne = treatment === 'convert' && statedMs + MARGIN_MS <= maximumDurationMs
  const byDuration = statedMs / (maximumDurationMs * SHORTEST_SHARE)
  // What is converted has a bit rate with which the bytes are no limit.
  const byBytes = treatment === 'cut' ? source.bytes / (maximumBytes * SHORTEST_SHARE) : 0
  const parts = isOne ? 1 : Math.ceil(Math.max(byDuration, byBytes))
  const durationMs = Math.ceil(statedMs / parts) + MARGIN_MS
  return { ...source, treatment, warnings, statedMs, estimates: Array.from({ length: parts }, () => ({ durationMs })) }
}
