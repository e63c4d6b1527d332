import type { AdapterName } from '#shared/catalog/adapter-names.ts'
import type { Carrier, Catalog } from '#shared/catalog/catalog.ts'
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
  readonly transcription?: (options: TranscriptionOptions) => TranscriptionObstacle | undefined
}

const CARRIAGES: Readonly<Record<AdapterName, Carriage>> = {
  gemini: { text: (request, { upstreamModel }) => geminiTextObstacle(request, upstreamModel) },
  anthropic: { text: (request, { upstreamModel }) => anthropicTextObstacle(request, upstreamModel) },
  'openai-compatible': {
    text: (request, { options }) => openAiTextObstacle(request, readOpenAiOptions(options)),
    transcription: openAiTranscriptionObstacle,
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
    ({ adapter }) => {
      const { transcription } = CARRIAGES[adapter]
      return transcription === undefined ? NO_RECORDING : transcription(options)
    },
    (field) => field,
  )
}
