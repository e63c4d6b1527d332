declare module 'node-webvtt' {
  interface ParsedCue {
    readonly identifier: string
    /** Seconds. */
    readonly start: number
    readonly end: number
    readonly text: string
  }
  /** Throws for a file that does not follow the specification. */
  export function parse(input: string, options?: { strict?: boolean }): { valid: boolean; cues: ParsedCue[] }
}
