const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\s]+/gu

/**
 * Returns a text of a server or a file name on one line: without characters that change what a terminal shows, and no
 * longer than a log should have.
 */
export function plainText(text: string, longest = 1000): string {
  const line = text.slice(0, longest).replace(UNPRINTABLE, ' ').trim()
  return text.length > longest ? `${line}…` : line
}

/** Returns a text as one word of a shell. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
