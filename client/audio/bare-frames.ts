import { type Mp3Walk, walkFrames } from '../../packages/mp3/walk-frames.ts'
import { readHeaderFrame } from './header-frame.ts'

/**
 * Returns the frames of an MP3 one after the other, without its header frame and what is between them: after each tag of
 * a joined file ffmpeg drops the next frames.
 */
export function bareFrames(mp3: Uint8Array): Uint8Array {
  const frames = new Uint8Array(mp3.length)
  let length = 0
  walkFrames(mp3, (start, end) => {
    frames.set(mp3.subarray(start, end), length)
    length += end - start
  })
  return frames.subarray(0, length)
}

/** Returns by how many milliseconds sound is later in the bare frames than in the whole file. */
export function skippedMsOf(mp3: Uint8Array, walk: Mp3Walk): number {
  const [first] = walk.parts
  return first === undefined ? 0 : (readHeaderFrame(mp3, walk).skippedSamples * 1000) / first.sampleRate
}
