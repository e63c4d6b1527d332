/** A stretch without speech, in milliseconds of the recording. */
export interface Silence {
  readonly startMs: number
  readonly endMs: number
}

/** Where a recording can be cut: between the frames of an MP3. */
export interface Cuttable {
  readonly durationMs: number
  /** Returns the latest time at which a part that begins at `startMs` may end, by bytes and by duration. */
  readonly latestEndMs: (startMs: number) => number
  /** Returns the time at which to cut so that `timeMs` is at the beginning of a part. */
  readonly cutBeforeMs: (timeMs: number) => number
}

export interface CutOptions {
  /** The last part is at least this long where that is possible, because a shorter one would be charged the minimum. */
  readonly minimumPartMs?: number
}

export type Cut =
  | { readonly kind: 'silence'; readonly atMs: number }
  /** There is no silence near the limit: cut at the quietest moment of this window. */
  | { readonly kind: 'window'; readonly startMs: number; readonly endMs: number }

/** How far before the limit a silence is looked for, as a share of the longest part. */
const WINDOW_SHARE = 0.2

/**
 * Returns where the part that begins at `startMs` should end, or undefined if all the rest fits into it: in the middle of
 * the longest silence of the last fifth before the limit; of equally long ones in the last, so that parts are few.
 */
export function nextCut(
  startMs: number,
  { durationMs, latestEndMs }: Pick<Cuttable, 'durationMs' | 'latestEndMs'>,
  silences: readonly Silence[],
  { minimumPartMs = 0 }: CutOptions = {},
): Cut | undefined {
  const limitMs = latestEndMs(startMs)
  if (limitMs >= durationMs) return undefined
  if (limitMs <= startMs) throw new RangeError('the limits leave no room for a part')
  const lengthMs = limitMs - startMs
  // A last part below the minimum moves the window forward, at most to the first half of the longest part.
  const endMs = Math.max(startMs + lengthMs / 2, Math.min(limitMs, durationMs - minimumPartMs))
  const windowStartMs = Math.max(startMs + lengthMs * 0.25, endMs - lengthMs * WINDOW_SHARE)
  let longest: Silence | undefined
  for (const silence of silences) {
    const clipped = {
      startMs: Math.max(silence.startMs, windowStartMs),
      endMs: Math.min(silence.endMs, endMs),
    }
    if (clipped.endMs > clipped.startMs && lengthOf(clipped) >= lengthOf(longest)) longest = clipped
  }
  if (longest === undefined) return { kind: 'window', startMs: windowStartMs, endMs }
  return { kind: 'silence', atMs: (longest.startMs + longest.endMs) / 2 }
}

function lengthOf(silence: Silence | undefined): number {
  return silence === undefined ? 0 : silence.endMs - silence.startMs
}

/**
 * Returns the times at which a recording is cut, in order, without its beginning and end. `quietestMs` finds the
 * quietest moment of a window in which there is no silence. No part is longer than its limit.
 */
export async function planCuts(
  recording: Cuttable,
  silences: readonly Silence[],
  quietestMs: (window: Silence) => Promise<number>,
  options: CutOptions = {},
): Promise<number[]> {
  const cuts: number[] = []
  for (let startMs = 0; ;) {
    const cut = nextCut(startMs, recording, silences, options)
    if (cut === undefined) return cuts
    const wantedMs = cut.kind === 'silence' ? cut.atMs : await quietestMs(cut)
    const atMs = recording.cutBeforeMs(Math.min(wantedMs, recording.latestEndMs(startMs)))
    const isUsable = atMs > startMs && atMs <= recording.latestEndMs(startMs)
    startMs = isUsable ? atMs : recording.latestEndMs(startMs)
    cuts.push(startMs)
  }
}
