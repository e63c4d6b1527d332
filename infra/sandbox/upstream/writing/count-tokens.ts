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
