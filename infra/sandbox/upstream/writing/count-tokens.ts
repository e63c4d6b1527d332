/**
 * Splits a text into pieces that represent a vendor's tokens; joined, they are the text. Every piece has at least one
 * character, so there are never more pieces than UTF-8 bytes, on which quotes rely.
 */
export function tokenPieces(text: string): string[] {
  return text.match(/\s*(?:[A-Za-z]{1,5}|\d{1,3}|[^\sA-Za-z\d])|\s+$/gu) ?? []
}

export function countTokens(text: string): number {
  return tokenPieces(text).length
}

/** Divides a text as a stream does, into pieces of so many tokens. */
export function inTokens(text: string, size: number): string[] {
  return inGroups(tokenPieces(text), size)
}

/** Divides JSON as a stream does, regardless of its tokens. */
export function inCharacters(json: string): string[] {
  return inGroups(Array.from(json), 16)
}

function inGroups(pieces: readonly string[], size: number): string[] {
  return Array.from({ length: Math.ceil(pieces.length / size) }, (_, index) =>
    pieces.slice(index * size, (index + 1) * size).join(''),
  )
}
