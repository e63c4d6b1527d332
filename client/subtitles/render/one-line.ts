import type { Cue } from '../words.ts'

/** Returns a cue's text, marks of speakers included, on one line; a break inside a word leaves no space. */
export function oneLine({ lines }: Pick<Cue, 'lines'>): string {
  return lines
    .map(({ prefix, text, atoms }, index) => {
      const joins = index === 0 || (prefix === '' && atoms[0]?.glued === true)
      return (joins ? '' : ' ') + prefix + text
    })
    .join('')
}
