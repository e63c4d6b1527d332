import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createFfmpegDecoder } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { createMp3Inspector, type InspectionOutcome } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { UNSHARED_VERDICTS } from '../../../api/request/audio/shared-verdicts.ts'
import { measureAudio } from '../../../api/request/measure-audio.ts'
import { PATIENCE_MS } from '../patience.ts'

const MAXIMUM_BYTES = 26_214_400

/** Starts an inspector with a real ffmpeg and the published limits. */
export async function startInspector(concurrency = 2, maximumWaiting = 100) {
  const ffmpegPath = (await findFfmpeg({ searchPath: process.env['PATH'] })) ?? ''
  const spawned: number[] = []
  const decode = createFfmpegDecoder({
    ffmpegPath,
    timeLimitMs: PATIENCE_MS,
    onSpawn: (processId) => spawned.push(processId),
  })
  const cache = createInspectionCache<InspectionOutcome>({ maximumEntries: 100, timeToLiveMs: 60_000 })
  const limits = { maximumBytes: MAXIMUM_BYTES, minimumDurationMs: 0, maximumDurationMs: 3_600_000 }
  const { inspect } = createMp3Inspector({
    decode,
    cache,
    verdicts: UNSHARED_VERDICTS,
    limitDecoding: () => undefined,
    concurrency,
    maximumWaiting,
  })
  return {
    spawned,
    inspect: async (audio: Uint8Array) =>
      await inspect(measureAudio(audio), { param: 'file', client: ['192.0.2.1'], hasPriority: true, limits }),
  }
}

/** Returns the duration, or the code and message of the error. */
export async function answerTo(audio: Uint8Array): Promise<string> {
  const { inspect } = await startInspector()
  return await inspect(audio).then(
    ({ durationMs }) => `${durationMs} ms`,
    (error: Error & { code?: string }) => `${error.code}: ${error.message}`,
  )
}
