import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import { transcriptionModels } from './transcription-models.ts'

/** A published speech-to-text model: prices as decimal dollars, limits in milliseconds and bytes. */
export interface TranscriptionModel {
  readonly id: string
  readonly category: 'speech_to_text'
  readonly pricePerAudioHourUsd: string
  readonly minimumChargeUsd: string
  readonly maximumChargeUsd: string
  readonly maximumAudioDurationMs: number
  readonly maximumAudioBytes: number
  readonly acceptedFormats: readonly string[]
}

/** Everything that is published about models and prices; immutable, and named by its content. */
export interface Catalog {
  /** Changes exactly when the content changes (specification, Versioning 3). */
  readonly version: string
  readonly transcriptionModels: readonly TranscriptionModel[]
}

const VERSION_DIGITS = 16

/** Builds a catalog and derives its version from its content. */
export function createCatalog(content: Omit<Catalog, 'version'>): Catalog {
  const digest = sha256Hex(
    canonicalJson({ transcriptionModels: content.transcriptionModels.map((model) => ({ ...model })) }),
  )
  return { version: `catalog-${digest.slice(0, VERSION_DIGITS)}`, ...content }
}

export const publishedCatalog: Catalog = createCatalog({ transcriptionModels })
