import type { TextRequest } from '#shared/operations/text/text-request.ts'

/** Returns whether the request names a sequence that may end its answer before the first visible character. */
export function endsAtStopSequence({ stop_sequences: sequences = [] }: Pick<TextRequest, 'stop_sequences'>): boolean {
  return sequences.length > 0
}

/**
 * Returns the text of an answer. Blank text counts as none where something else is delivered, a call or a refusal;
 * where the blank text is the answer itself, it is delivered as it is.
 */
export function deliveredText(text: string, isWholeAnswer: boolean): string | null {
  return isWholeAnswer || text.trim() !== '' ? text : null
}
