import type { DecodedAudio, DecodeVerdict, InspectionStore } from '#shared/ledger/acceptance/inspection-store.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** The verdicts of decoders that all API processes share, so that an upload is decoded by one of them. */
export interface SharedVerdicts {
  /** Returns the verdict of another process, or `null` without one, or when it cannot be read. Never throws. */
  find(audio: Omit<DecodedAudio, 'inspector'>): Promise<DecodeVerdict | null>
  /** Stores the verdict of a decode for the other processes, if possible. Never throws. */
  record(audio: Omit<DecodedAudio, 'inspector'>, verdict: DecodeVerdict): Promise<void>
}

export interface SharedVerdictsDependencies {
  readonly store: InspectionStore
  /** Returns what identifies the decoder and the rules of the comparison, in hex. */
  readonly readInspector: () => Promise<string>
  /** Lifetime of a challenge. */
  readonly lifetimeSeconds: number
  /** An upload is decoded instead when the store takes longer than this. */
  readonly patienceMs: number
  /** Called with the reason why a verdict could not be shared. */
  readonly onFailure: (error: unknown) => void
}

/** Shares nothing: the inspector of a process without a ledger. */
export const UNSHARED_VERDICTS: SharedVerdicts = { find: async () => null, record: async () => undefined }

/** Creates the verdicts over a store. A store that fails or hangs only costs decodes. */
export function createSharedVerdicts(dependencies: SharedVerdictsDependencies): SharedVerdicts {
  const { store, readInspector, lifetimeSeconds, patienceMs, onFailure } = dependencies
  const attempt = async <Value>(work: (inspector: string) => Promise<Value>): Promise<Value | null> => {
    try {
      return await withDeadline(patienceMs, readInspector().then(work), () => {
        throw new Error(`the store of inspections did not answer within ${patienceMs} ms`)
      })
    } catch (error) {
      onFailure(error)
      return null
    }
  }
  return {
    find: (audio) => attempt((inspector) => store.findVerdict({ ...audio, inspector })),
    record: async (audio, verdict) => {
      await attempt((inspector) => store.recordVerdict({ ...audio, inspector }, verdict, lifetimeSeconds))
    },
  }
}
