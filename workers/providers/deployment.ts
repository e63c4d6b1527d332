import type { VendorPrices } from '#shared/catalog/vendor-cost.ts'
import type { LookUpModel } from './model-look-up.ts'
import type { ImageProvider, SpeechProvider, TextProvider, TranscriptionProvider } from './provider.ts'

/** The ports of one upstream; an adapter has those that its API offers. */
export interface ProviderPorts {
  readonly text?: TextProvider
  readonly image?: ImageProvider
  readonly speech?: SpeechProvider
  readonly transcription?: TranscriptionProvider
  /** Asks the vendor whether it has the model. */
  readonly lookUpModel?: LookUpModel
}

/** A private upstream, ready to be called. Its name is for logs and the attempts' rows, never for callers. */
export interface Deployment extends ProviderPorts {
  readonly name: string
  /** Who bills it, and for which model: as `vendorOf` and the deployments file name them. */
  readonly vendor: string
  readonly upstreamModel: string
  /** Public model ids. */
  readonly serves: readonly string[]
  /** The lowest is tried first. */
  readonly priority: number
  readonly weight: number
  /** Takes no new calls. */
  readonly isDrained?: boolean
  readonly maximumConcurrency?: number
  readonly requestsPerMinute?: number
  readonly timeoutMs?: number
  /** Public alias → the upstream's voice id; absent: the upstream accepts the aliases as they are. */
  readonly voices?: Readonly<Record<string, string>>
  /** What its vendor bills; absent: not known. */
  readonly prices?: VendorPrices
  /** When the upstream model retires, as far as this version knows. */
  readonly knownRetirement?: Date
}

/** Returns the upstream's id of a public voice, or `undefined` when the deployment does not offer it. */
export function upstreamVoice({ voices }: Pick<Deployment, 'voices'>, alias: string): string | undefined {
  if (voices === undefined) return alias
  return Object.hasOwn(voices, alias) ? voices[alias] : undefined
}
