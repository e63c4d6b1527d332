import type { Registry } from 'prom-client'
import type { InspectionStore } from '#shared/ledger/acceptance/inspection-store.ts'
import { CHALLENGE_LIFETIME_SECONDS } from '#shared/payment/payment-terms.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ApiConfig } from '../config.ts'
import type { DecodingLimiter } from '../limits/rate-limits.ts'
import { createFfmpegDecoder } from '../request/audio/decode-with-ffmpeg.ts'
import { createInspectorIdentity } from '../request/audio/identify-inspector.ts'
import { createMp3Inspector, isOfCaller, type Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../request/audio/inspection-cache.ts'
import { createSharedVerdicts, UNSHARED_VERDICTS } from '../request/audio/shared-verdicts.ts'
import { createStandbyFfmpeg } from '../request/audio/standby-ffmpeg.ts'
import type { ReadinessChecks } from '../routes/health.ts'
import { addDecoderMetrics } from '../telemetry/metrics.ts'

const CACHED_INSPECTIONS = 10_000
/** An hour of audio takes about 3 s of one core; a machine that needs this long is unfit to inspect. */
const DECODE_TIMEOUT_MS = 60_000
/** A statement takes a millisecond; a decode takes from 50 ms to some seconds. */
const VERDICT_PATIENCE_MS = 1000

export interface AudioInspectionOptions {
  readonly metrics: Registry
  readonly logger: Logger
  readonly stopping: AbortSignal
  readonly store: InspectionStore
  readonly limitDecoding: DecodingLimiter
}

/** Composes the inspection of MP3s. Without ffmpeg the process starts, but is not ready. */
export async function composeAudioInspection(
  config: ApiConfig,
  { metrics, logger, stopping, store, limitDecoding }: AudioInspectionOptions,
): Promise<{
  mp3Inspector: Mp3Inspector
  expectUpload: () => void
  readinessChecks: ReadinessChecks['required']
}> {
  const ffmpegPath = await findFfmpeg({ configuredPath: config.FFMPEG_PATH, searchPath: config.PATH })
  const ffmpeg = ffmpegPath === undefined ? undefined : { ffmpegPath, timeLimitMs: DECODE_TIMEOUT_MS }
  const standby = ffmpeg && createStandbyFfmpeg(ffmpeg, stopping)
  const mp3Inspector = createMp3Inspector({
    decode: ffmpeg && createFfmpegDecoder(ffmpeg, standby),
    cache: createInspectionCache({
      maximumEntries: CACHED_INSPECTIONS,
      timeToLiveMs: CHALLENGE_LIFETIME_SECONDS * 1000,
      isOfCaller,
    }),
    verdicts:
      ffmpegPath === undefined
        ? UNSHARED_VERDICTS
        : createSharedVerdicts({
            store,
            readInspector: createInspectorIdentity(ffmpegPath),
            lifetimeSeconds: CHALLENGE_LIFETIME_SECONDS,
            patienceMs: VERDICT_PATIENCE_MS,
            onFailure: (error) => logger.warn('inspections are not shared at the moment', { error }),
          }),
    limitDecoding,
    concurrency: config.DECODERS,
    maximumWaiting: config.DECODER_WAITING,
    signal: stopping,
    onUnavailable: (reason) => logger.error('audio inspection is unavailable', { reason }),
  })
  addDecoderMetrics(metrics, mp3Inspector)
  return {
    mp3Inspector,
    expectUpload: () => standby?.start(),
    readinessChecks: {
      audio_inspection: async () => {
        if (ffmpegPath === undefined) throw new Error('no ffmpeg was found')
      },
    },
  }
}
