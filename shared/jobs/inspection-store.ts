/** What identifies a decode: the bytes, and the decoder with the rules that its output is compared by. */
export interface DecodedAudio {
  readonly sha256: string
  /** SHA-256 in hex. */
  readonly inspector: string
  /** The duration that the frame walk found. Another process that found a different one decodes the audio itself. */
  readonly durationMs: number
}

/** What a decoder said of an upload. `refusal` is the public message, or `null` if it agreed with the frame walk. */
export interface DecodeVerdict {
  readonly refusal: string | null
}

/** Verdicts that all API processes share. Nothing is lost when they are missing: the audio is decoded again. */
export interface InspectionStore {
  /** Returns the verdict of another process on the same bytes and duration, or `null` when there is none. */
  findVerdict(audio: DecodedAudio): Promise<DecodeVerdict | null>
  /** Stores a verdict for this many seconds, unless there is a valid one. */
  recordVerdict(audio: DecodedAudio, verdict: DecodeVerdict, lifetimeSeconds: number): Promise<void>
}
