import type { Cue } from '../../../../client/subtitles/subtitles.ts'
import { folded } from './shown-cues.ts'

/** Signs that some reader may take for markup, and those that complete it. */
export const SIGNS = Array.from('{}\\<>&;/!-"\'=#*_~[]():Nnhib1|^@%$+.,?`\n')
/** The ones among them that begin, end or are part of a code of some format. */
export const CODE_SIGNS = Array.from('{}\\<>&;/!-"=#:Nnhib1\n')

/** Longer texts that readers of some format take for more than text. */
const CODES = [
  ['<i>it</i>', '<font color="red">x</font>', '<c>x</c>', '<c.yellow>x', '<v Eve>x', '<00:00:01.000>', '<!-- x -->'],
  ['{\\an8}up', '{y:i}it', '{b}x{/b}', 'see {name} there', 'a {b\nc} d', '{{x}', '{x}}', '} {', '{', '\\{x\\}', '{\\'],
  ['&amp;', '&lt;i&gt;', '&nbsp;x', '&#65;', '&#x41;', '&#65', 'AT&T;', 'Q&A', '&lrm;x'],
  ['C:\\New\\house', 'a\\Nb', 'x\\\ny', '-->', 'a --> b', '00:00:01,000 --> 00:00:02,000', '00:00:01.000'],
  ['NOTE', 'NOTE x', 'WEBVTT', 'STYLE', 'REGION', '42', '12\nx', 'position:50%', 'line: 5', 'size=2', 'align:left\nx'],
  [
    '>> JOHN: Hi',
    '>>> x: y',
    '"quoted" text',
    '"',
    '""',
    '"a\nb',
    "'a",
    'X1:100 X2:200',
    'Dialogue: 0,x',
    '[Events]',
    '♪ la ♪',
    '*b* _i_ /x/',
  ],
  ['{"a":1}', 'if (x < 3 && y > 4) { return }', '$x^{2}$', 'a{b}c<d>e&f;g\\Nh'],
].flat()

/** Returns a cue a second for every sequence of so many signs between two letters. */
export function sweepOf(signs: readonly string[], length: number): Cue[] {
  let texts = ['']
  for (let position = 0; position < length; position++)
    texts = texts.flatMap((text) => signs.map((sign) => text + sign))
  // No text has a line without characters.
  return cuesOf(texts.filter((text) => !text.includes('\n\n')).map((text) => `a${text}b`))
}

/** Returns the text of each cue, but for look-alikes. */
export const foldedTexts = (cues: readonly Cue[]): string[] =>
  cues.map(({ lines }) => folded(lines.map(({ text }) => text).join('\n')))

export const codeCues = (): Cue[] => cuesOf(CODES)

function cuesOf(texts: readonly string[]): Cue[] {
  return texts.map((text, second) => ({
    startMs: second * 1000,
    endMs: second * 1000 + 1000,
    lines: text.split('\n').map((line) => ({ prefix: '', text: line, atoms: [] })),
  }))
}
