import { type FrameWalk, walkFrames } from '#mp3/walk-frames.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** An upload with what can be computed from its bytes alone. */
export interface MeasuredUpload {
  readonly audio: Uint8Array
  readonly sha256: string
  readonly walk: FrameWalk
}

/** Hashes an upload and walks its frames. Pure; the largest takes tens of milliseconds. */
export function measureAudio(audio: Uint8Array): MeasuredUpload {
  return { audio, sha256: sha256Hex(audio), walk: walkFrames(audio) }
}
