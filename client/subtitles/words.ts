/** One item of the `words` of a transcription; times are in seconds. Anything may be missing or wrong. */
export interface TranscribedWord {
  readonly word: string
  readonly start?: number | null | undefined
  readonly end?: number | null | undefined
  readonly type?: 'word' | 'spacing' | 'audio_event'
  readonly speaker?: string | null | undefined
  readonly characters?: readonly { readonly text: string; readonly start: number; readonly end: number }[] | undefined
}

/**
 * The smallest part of a text that a line can break before: a word, a part of a word that is longer than a line, or a
 * segment of a script that is written without spaces.
 */
export interface Atom {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
  /** Index of its word in the transcription. */
  readonly word: number
  /** Whether it follows the atom before it without a space. */
  readonly glued: boolean
  readonly event: boolean
  /** Inherited from the word before it if the transcription names none. */
  readonly speaker?: string
}

export interface CueLine {
  /** A dash or a label of the speaker, or nothing. */
  readonly prefix: string
  /** The text after the prefix. */
  readonly text: string
  readonly speaker?: string
  readonly atoms: readonly Atom[]
}

export interface Cue {
  readonly startMs: number
  readonly endMs: number
  readonly lines: readonly CueLine[]
}

export type Rule =
  | 'line-length'
  | 'line-count'
  | 'line-speakers'
  | 'minimum-duration'
  | 'maximum-duration'
  | 'gap'
  | 'reading-speed'
  | 'cut-short'
  | 'word-times'

/** A rule that a cue breaks because of its words' own times. */
export interface Violation {
  readonly rule: Rule
  /** Index of the cue. */
  readonly cue: number
  readonly why: string
}

export interface WrittenCues {
  readonly cues: readonly Cue[]
  readonly violations: readonly Violation[]
}
