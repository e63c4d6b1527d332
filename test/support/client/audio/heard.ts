import { expect } from 'vitest'
import { decodeFrames, type Ffmpeg } from '../../../../client/audio/ffmpeg.ts'
import type { Upload } from '../../../../client/audio/prepare-recording.ts'
import { readAgain } from '../../../../client/audio/read-recording.ts'
import { type Burst, burstsIn } from './bursts.ts'

/** Encoding blurs an edge, and the finder of bursts works in steps. */
const EDGE_MS = 20

/** Returns the bursts of all uploads, at the times that the recording has them. */
export async function heard(uploads: readonly Upload[], ffmpeg: Ffmpeg): Promise<Burst[]> {
  const found: Burst[] = []
  for (const upload of uploads) {
    const { samples, sampleRate } = await decodeFrames(await readAgain(upload), { path: upload.path, ffmpeg })
    for (const { startMs, endMs } of burstsIn(samples, sampleRate))
      found.push({ startMs: startMs + upload.offsetMs, endMs: endMs + upload.offsetMs })
  }
  return found
}

/** Expects the same bursts, with edges that are at most 20 ms off. */
export function expectBursts(found: readonly Burst[], expected: readonly Burst[]) {
  expect(found).toHaveLength(expected.length)
  for (const [index, { startMs, endMs }] of expected.entries()) {
    expect(Math.abs((found[index]?.startMs ?? -1) - startMs)).toBeLessThanOrEqual(EDGE_MS)
    expect(Math.abs((found[index]?.endMs ?? -1) - endMs)).toBeLessThanOrEqual(EDGE_MS)
  }
}
