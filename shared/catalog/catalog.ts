import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import type { AdapterName } from './adapter-names.ts'
import { type CommonTerms, commonTerms } from './common-terms.ts'

/** The fields of every published model. Prices are decimal dollars, `created` is in Unix seconds. */
interface PublishedModel {
  readonly id: string
  readonly created: number
  /** Bounds of one call's quote and charge. */
  readonly minimumChargeUsd: string
  readonly maximumChargeUsd: string
}

export interface TextModel extends PublishedModel {
  readonly category: 'text_generation'
  readonly inputPerMillionTokensUsd: string
  /** Of input that the vendor reads from its prompt cache, and of input that it writes to it; absent: as any input. */
  readonly cachedInputPerMillionTokensUsd?: string
  readonly cacheWritePerMillionTokensUsd?: string
  readonly outputPerMillionTokensUsd: string
  /**
   * Tokens of input and output together. A request is checked against it with the proven maximum of its input, one
   * token for each UTF-8 byte, so text reaches `max_input_bytes` of the models list long before it has this many
   * tokens.
   */
  readonly contextWindow: number
  readonly maximumOutputTokens: number
}

export interface ImageModel extends PublishedModel {
  readonly category: 'image_generation'
  readonly pricePerImageUsd: string
}

export interface SpeechModel extends PublishedModel {
  readonly category: 'text_to_speech'
  readonly pricePerThousandCharactersUsd: string
  /** Unicode code points of one call. */
  readonly maximumCharacters: number
  readonly defaultVoice: string
}

/** For each option of a recording, the values that some deployment of the model takes; named as callers write them. */
export interface TranscriptionChoices {
  readonly diarize: readonly boolean[]
  readonly tag_audio_events: readonly boolean[]
  readonly timestamps: readonly ('none' | 'word' | 'character')[]
  readonly response_format: readonly ('json' | 'verbose_json')[]
}

export interface TranscriptionModel extends PublishedModel {
  readonly category: 'speech_to_text'
  readonly pricePerAudioHourUsd: string
  /** Shorter recordings are refused. Absent in catalogs of before it was published: none is too short. */
  readonly minimumAudioDurationMs?: number
  readonly maximumAudioDurationMs: number
  readonly maximumAudioBytes: number
  readonly acceptedFormats: readonly string[]
  /** What is not among them is refused before a price. Absent where the deployments are not known. */
  readonly supportedOptions?: TranscriptionChoices
}

export type Model = TextModel | ImageModel | SpeechModel | TranscriptionModel

export interface Voice {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly languages: readonly string[]
  /** ISO date (UTC) of the last day on which the voice is offered, or `null`. */
  readonly retirementDate: string | null
}

/** Everything that is published about models and prices; immutable, and versioned by its content. */
export interface Catalog {
  /** Changes exactly when the content changes. */
  readonly version: string
  /** Enabled models only, in the order they are listed. */
  readonly models: readonly Model[]
  /** Offered voices only, in the order they are listed. */
  readonly voices: readonly Voice[]
  readonly common: CommonTerms
  /**
   * The deployments by the models that they serve. Private: neither published, recorded nor part of the version. Absent
   * where they are not known, as in a catalog of an earlier quote.
   */
  readonly carriers?: Carriers
}

/** A deployment, as far as it decides what a request may ask for. */
export interface Carrier {
  readonly adapter: AdapterName
  /** The vendor's model name. */
  readonly upstreamModel: string
  /** Options of the adapter, as they are in the deployments file. */
  readonly options: unknown
}

export type Carriers = Readonly<Record<string, readonly Carrier[]>>

/** The content of a catalog; `common` defaults to the published terms. */
export type CatalogContent = Pick<Catalog, 'models' | 'voices'> & { readonly common?: CommonTerms }

const VERSION_DIGITS = 16

/** Creates a catalog and derives its version from its content. */
export function createCatalog({ models, voices, common = commonTerms }: CatalogContent): Catalog {
  const content = { models, voices, common }
  const plain = JSON.parse(JSON.stringify(content)) as Parameters<typeof canonicalJson>[0]
  return { version: `catalog-${sha256Hex(canonicalJson(plain)).slice(0, VERSION_DIGITS)}`, ...content }
}

/** Returns the model with this id and category, or `undefined` when the catalog does not offer it. */
export function findModel<C extends Model['category']>(
  catalog: Catalog,
  category: C,
  id: string,
): Extract<Model, { category: C }> | undefined {
  return catalog.models.find(
    (model): model is Extract<Model, { category: C }> => model.category === category && model.id === id,
  )
}

const MS_PER_DAY = 86_400_000

/** What each catalog offered when it was last asked for: every quote asks, and it changes at midnight UTC. */
const offeredOfDay = new WeakMap<Catalog, { readonly day: number; readonly offered: Catalog }>()

/**
 * Returns the catalog without the voices whose retirement date is before `now`. The version stays: it covers the dates,
 * which were published long before.
 */
export function withoutRetiredVoices(catalog: Catalog, now: Date): Catalog {
  const day = Math.floor(now.getTime() / MS_PER_DAY)
  const known = offeredOfDay.get(catalog)
  if (known?.day === day) return known.offered
  const offered = withoutVoicesBefore(catalog, now.toISOString().slice(0, 'YYYY-MM-DD'.length))
  offeredOfDay.set(catalog, { day, offered })
  return offered
}

function withoutVoicesBefore(catalog: Catalog, today: string): Catalog {
  const isRetired = ({ retirementDate }: Voice) => retirementDate !== null && retirementDate < today
  if (!catalog.voices.some(isRetired)) return catalog
  return { ...catalog, voices: catalog.voices.filter((voice) => !isRetired(voice)) }
}
