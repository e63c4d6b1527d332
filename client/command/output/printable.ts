/** Control characters, and those that reorder or hide text: a name may contain any of them. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\p{Cs}/gu
const UNPRINTABLE_BUT_LINES = new RegExp(`(?!\n)(?:${UNPRINTABLE.source})`, 'gu')
const NOT_ASCII = /[^\u0020-\u007e\n]/gu

/** Characters of messages that have a usual form in ASCII. */
const ASCII_FORMS: Readonly<Record<string, string>> = {
  '’': "'",
  '‘': "'",
  '“': '"',
  '”': '"',
  '…': '...',
  '→': '->',
  '×': 'x',
  '·': '-',
  '–': '-',
  '—': '-',
}

/** Makes a name safe for one line of a terminal: control characters are shown as escapes. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escapeOf)
}

/** The same for a message of several lines. */
export function printableLines(text: string): string {
  return text.replace(UNPRINTABLE_BUT_LINES, escapeOf)
}

/** Replaces what a terminal without UTF-8 cannot show. */
export function inAscii(text: string): string {
  return text.replace(NOT_ASCII, (character) => ASCII_FORMS[character] ?? '?')
}

function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
}
