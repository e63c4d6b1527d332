import { planPacks } from '../../audio/pack/plan-packs.ts'
import type { MeasuredRecording } from './plan-cache.ts'
import type { TranscriptionTerms } from './pricing.ts'

/** Longer packs would cost nothing less, and shorter ones are transcribed at the same time. */
const LONGEST_PACK_MS = 15 * 60_000

/** Groups recordings that are cheaper together. The same recordings in the same order result in the same groups. */
export function groupPacks(
  recordings: readonly MeasuredRecording[],
  { limits, prices }: Pick<TranscriptionTerms, 'limits' | 'prices'>,
): (readonly MeasuredRecording[])[] {
  const clips = recordings.flatMap((recording) => {
    const [upload] = recording.uploads
    if (upload === undefined || recording.uploads.length > 1) return []
    const { durationMs, bytes } = upload
    return [{ recording, durationMs, bytes, streamKey: recording.streamKey ?? undefined }]
  })
  const { packs } = planPacks(clips, { limits, prices, maximumPackMs: LONGEST_PACK_MS })
  return packs.map((pack) => pack.map(({ recording }) => recording))
}

/** Divides a price among durations, so that the shares add up to it. */
export function sharesOf(price: bigint, durationsMs: readonly number[]): bigint[] {
  const total = durationsMs.reduce((sum, durationMs) => sum + BigInt(durationMs), 0n)
  let before = 0n
  let elapsed = 0n
  return durationsMs.map((durationMs) => {
    elapsed += BigInt(durationMs)
    const until = total === 0n ? price : (price * elapsed) / total
    const share = until - before
    before = until
    return share
  })
}
