/**
 * Cuts a text into pieces that stand for a vendor's tokens; joined they are the text again. Every piece holds at least one
 * character of its own, so there are never more pieces than UTF-8 bytes, which is what a quote relies on.
 */
export function tokenPieces(text: string): string[] {
  return text.match(/\s*(?:[A-Za-z]{1,5}|\d{1,3}|[^\sA-Za-z\d])|\s+$/gu) ?? []
}

export function countTokens(text: string): number {
  return tokenPieces(text).length
}
