import type { AdapterName } from '#shared/catalog/adapter-names.ts'
import type { Carrier, Carriers, Catalog, TranscriptionChoices } from '#shared/catalog/catalog.ts'
import type { TextRequest } from '../text/text-request.ts'
import { anthropicTextObstacle } from './anthropic.ts'
import { geminiTextObstacle } from './gemini.ts'
import { requireCarrier } from './obstacle.ts'
import { openAiTextObstacle, openAiTranscriptionObstacle, readOpenAiOptions } from './openai-compatible.ts'
import type { TextObstacle } from './text-obstacle.ts'
import type { TranscriptionObstacle, TranscriptionOptions } from './transcription-obstacle.ts'

/** What the deployments of an adapter do not take; the adapter itself refuses by the same functions. */
interface Carriage {
  /** Absent for a vendor without text. */
  readonly text?: (request: TextRequest, carrier: Carrier) => TextObstacle | undefined
  /** Absent for a vendor without recognition. */
  readonly transcription?: (options: TranscriptionOptions, carrier: Carrier) => TranscriptionObstacle | undefined
}

const CARRIAGES: Readonly<Record<AdapterName, Carriage>> = {
  gemini: { text: (request, { upstreamModel }) => geminiTextObstacle(request, upstreamModel) },
  anthropic: { text: (request, { upstreamModel }) => anthropicTextObstacle(request, upstreamModel) },
  'openai-compatible': {
    text: (request, { options }) => openAiTextObstacle(request, readOpenAiOptions(options)),
    transcription: (asked, { options }) => openAiTranscriptionObstacle(asked, readOpenAiOptions(options)),
  },
  elevenlabs: { transcription: () => undefined },
}

const NO_TEXT = { field: 'messages', what: 'text requests' } as const
const NO_RECORDING = { field: 'timestamps', what: 'recordings' } as const

/**
 * Throws `request_unsupported` (400) when no deployment of the model takes the request. `params` are the caller's names of
 * fields that the internal request calls otherwise.
 */
export function requireTextCarrier(
  catalog: Catalog,
  model: string,
  request: TextRequest,
  params: Readonly<Partial<Record<keyof TextRequest, string>>>,
): void {
  requireCarrier(
    catalog,
    model,
    (carrier) => {
      const { text } = CARRIAGES[carrier.adapter]
      return text === undefined ? NO_TEXT : text(request, carrier)
    },
    (field) => params[field] ?? field,
  )
}

/** Does the same for the options of a recording. */
export function requireTranscriptionCarrier(catalog: Catalog, model: string, options: TranscriptionOptions): void {
  requireCarrier(
    catalog,
    model,
    (carrier) => transcriptionObstacle(options, carrier),
    (field) => field,
  )
}

function transcriptionObstacle(options: TranscriptionOptions, carrier: Carrier): TranscriptionObstacle | undefined {
  const { transcription } = CARRIAGES[carrier.adapter]
  return transcription === undefined ? NO_RECORDING : transcription(options, carrier)
}

/** A recording of which only the text is wanted, which every deployment gives. */
const TEXT_ONLY: TranscriptionOptions = {
  diarize: false,
  tag_audio_events: false,
  timestamps: 'none',
  response_format: 'json',
}

/** Returns for each option of a recording the values that some deployment of the model takes, by the ids of models. */
export function transcriptionChoices(carriers: Carriers): ReadonlyMap<string, TranscriptionChoices> {
  return new Map(
    Object.entries(carriers).map(([model, own]) => {
      const taken = <Value>(values: readonly Value[], asking: (value: Value) => Partial<TranscriptionOptions>) =>
        values.filter((value) =>
          own.some((carrier) => transcriptionObstacle({ ...TEXT_ONLY, ...asking(value) }, carrier) === undefined),
        )
      return [
        model,
        {
          diarize: taken([false, true], (diarize) => ({ diarize })),
          tag_audio_events: taken([false, true], (tag_audio_events) => ({ tag_audio_events })),
          timestamps: taken(['none', 'word', 'character'] as const, (timestamps) => ({ timestamps })),
          response_format: taken(['json', 'verbose_json'] as const, (response_format) => ({ response_format })),
        },
      ]
    }),
  )
}
