/** What a vendor is to speak, independent of its wire format. */
export interface Speech {
  readonly text: string
  /** The vendor's id of the voice. */
  readonly voice: string
  /** 1 is the voice's own. */
  readonly speed: number
  readonly sampleRate: 44_100 | 24_000
}

/** Returns a mono MP3 of 128 kbit/s. An aborted one rejects. */
export type Speak = (speech: Speech, signal: AbortSignal) => Promise<Uint8Array>
