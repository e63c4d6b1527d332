/** What is spoken in place of words that an English voice cannot read. */
const OTHER_SCRIPT = 'text in another script'

/** What has no compatible form in ASCII, but a plain one. */
const PLAIN_FORMS: ReadonlyMap<string, string> = new Map(
  (
    [
      ["'", '‘’‚'],
      ['"', '“”„«»'],
      [', ', '–—'],
      ['/', '\u2044'],
      [' euros ', '€'],
      [' pounds ', '£'],
      ['ss', 'ß'],
      ['ae', 'æ'],
      ['Ae', 'Æ'],
      ['oe', 'œ'],
      ['Oe', 'Œ'],
      ['o', 'ø'],
      ['O', 'Ø'],
      ['l', 'ł'],
      ['L', 'Ł'],
      ['d', 'đð'],
      ['th', 'þ'],
      ['i', 'ı'],
    ] as const
  ).flatMap(([plain, forms]) => Array.from(forms, (form): [string, string] => [form, plain])),
)

/**
 * Returns a text as flite can read it, in ASCII: letters with marks lose them, and words of another script are announced as
 * such in English. Symbols without a plain form are left out.
 */
export function readableText(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^\0-\x7f]/gu, (character) => PLAIN_FORMS.get(character) ?? character)
  const words = plain.split(/\s+/).map((word) => (isOtherScript(word) ? OTHER_SCRIPT : word))
  return words
    .filter((word, index) => word !== OTHER_SCRIPT || words[index - 1] !== OTHER_SCRIPT)
    .join(' ')
    .replaceAll(/[^\x20-\x7e]/gu, '')
}

function isOtherScript(word: string): boolean {
  return /[\p{L}\p{N}]/u.test(word.replaceAll(/[\0-\x7f]/g, ''))
}
