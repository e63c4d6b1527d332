import { speakerName } from './cues/shown-text.ts'
import type { Atom, Cue, CueLine, WrittenCues } from './words.ts'

const PARAGRAPH_PAUSE_MS = 1000
/** A paragraph of this length ends with its sentence, at the next short pause when it is longer, and then anywhere. */
const LONG_PARAGRAPH = 500
const LONGER_PARAGRAPH = 1000
const LONGEST_PARAGRAPH = 1500
const SHORT_PAUSE_MS = 250
const SENTENCE_END = /[.!?…。！？؟۔।]["'”’»)\]」』]*$/u

/** Is not seen, and parts what a reader would take together. */
const WORD_JOINER = '\u2060'

const two = (value: number) => String(Math.floor(value)).padStart(2, '0')

/** A cue without text, for a millisecond: FFmpeg and mpv refuse a file of no cues, which is empty. */
const NO_CUES = '1\n00:00:00,000 --> 00:00:00,001\n\n'

/**
 * Renders SubRip. The format has no escapes, so what players take for markup or for a line of times is replaced by
 * characters that look alike.
 */
export function renderSrt(cues: readonly Cue[]): string {
  if (cues.length === 0) return NO_CUES
  return cues
    .map(({ startMs, endMs, lines }, index) => {
      const text = withoutMarkup(lines.map((line) => line.prefix + line.text).join('\n'))
      return `${index + 1}\n${clockTime(startMs, ',')} --> ${clockTime(endMs, ',')}\n${text}\n`
    })
    .join('\n')
}

/**
 * Players hide text after `<`, some only up to `>`. Those of the web show `&` where `&amp;` was said, and subsrt-ts takes
 * what is between `>>` and a colon for a speaker, whom it leaves out.
 */
function withoutMarkup(text: string): string {
  const plain = text
    .replaceAll('-->', '→')
    .replaceAll('<', '‹')
    .replace(/>>(?=[^:]*:)/gu, '››')
    .replace(/&(?=#|[\p{L}\p{N}]+;)/gu, `&${WORD_JOINER}`)
  return withoutCodes(plain)
}

/**
 * Replaces what libass, which shows the subtitles of FFmpeg and mpv, takes for codes of its own format: it hides what is
 * between braces, across lines, too, breaks lines at `\N` and `\n`, and drops a backslash before a brace. Other readers
 * hide braces even in WebVTT.
 */
function withoutCodes(text: string): string {
  return text.replace(/\\(?=[Nnh{}])/gu, '∖').replace(/\{(?=[^}]*\})/gu, '❴')
}

/** What begins a cue and is taken for its settings by a reader, media-captions, that allows them on a line of their own. */
const SETTING = /^(?:region|vertical|line|position|size|align)[:=]/u

/** Renders WebVTT. With `voices`, speakers are voice tags instead of dashes and labels. */
export function renderVtt(cues: readonly Cue[], { voices = false }: { readonly voices?: boolean } = {}): string {
  const blocks = cues.map(({ startMs, endMs, lines }) => {
    const text = lines.map((line) => (voices ? withVoice(line) : escaped(line.prefix + line.text))).join('\n')
    const shown = withoutCodes(text).replace(SETTING, `${WORD_JOINER}$&`)
    return `${clockTime(startMs, '.')} --> ${clockTime(endMs, '.')}\n${shown}\n`
  })
  return ['WEBVTT\n', ...blocks].join('\n')
}

function withVoice({ speaker, text }: CueLine): string {
  return speaker === undefined ? escaped(text) : `<v ${escaped(speakerName(speaker))}>${escaped(text)}</v>`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/**
 * Renders running text: a paragraph for each turn of a speaker, after a sentence that a pause follows, and where one would
 * become too long to be read.
 */
export function renderText(cues: readonly Cue[]): string {
  let text = ''
  let paragraph = 0
  let previous: Atom | undefined
  for (const line of cues.flatMap(({ lines }) => lines)) {
    for (const [index, atom] of line.atoms.entries()) {
      const label = index === 0 && line.prefix.startsWith('[') ? line.prefix : ''
      const isNext = previous !== undefined && begins(previous, atom, text.length - paragraph)
      text += previous === undefined ? '' : isNext ? '\n' : atom.glued ? '' : ' '
      if (isNext) paragraph = text.length
      text += label + atom.text
      previous = atom
    }
  }
  return text === '' ? '' : `${text}\n`
}

function begins(previous: Atom, atom: Atom, length: number): boolean {
  if (previous.speaker !== atom.speaker) return true
  const pauseMs = atom.startMs - previous.endMs
  if (SENTENCE_END.test(previous.text) && (pauseMs >= PARAGRAPH_PAUSE_MS || length >= LONG_PARAGRAPH)) return true
  if (atom.glued) return false
  return length >= LONGEST_PARAGRAPH || (length >= LONGER_PARAGRAPH && pauseMs >= SHORT_PAUSE_MS)
}

/**
 * Renders the tab-separated form of Whisper: start and end in milliseconds, and the text. Readers of tables take
 * a quotation mark that begins a text for one around it, and all rows up to the next one for a part of it.
 */
export function renderTsv(cues: readonly Cue[]): string {
  const rows = cues.map(
    (cue) => `${cue.startMs}\t${cue.endMs}\t${oneLine(cue).replaceAll('\t', ' ').replace(/^"/u, '“')}\n`,
  )
  return ['start\tend\ttext\n', ...rows].join('')
}

/** Renders cues and violations as JSON: times in seconds, as in a transcription, and the lines with speakers. */
export function renderJson({ cues, violations }: WrittenCues): string {
  const rendered = cues.map(({ startMs, endMs, lines }) => ({
    start: startMs / 1000,
    end: endMs / 1000,
    text: lines.map(({ prefix, text }) => prefix + text).join('\n'),
    lines: lines.map(({ text, speaker }) => ({ text, ...(speaker === undefined ? {} : { speaker }) })),
  }))
  return `${JSON.stringify({ cues: rendered, violations }, null, 2)}\n`
}

/** Returns a cue's text, marks of speakers included, on one line; a break inside a word leaves no space. */
function oneLine({ lines }: Pick<Cue, 'lines'>): string {
  return lines
    .map(({ prefix, text, atoms }, index) => {
      const joins = index === 0 || (prefix === '' && atoms[0]?.glued === true)
      return (joins ? '' : ' ') + prefix + text
    })
    .join('')
}

/** Returns `HH:MM:SS` and milliseconds; hours have as many digits as they need. */
function clockTime(milliseconds: number, separator: ',' | '.'): string {
  const hours = two(milliseconds / 3_600_000)
  const minutes = two((milliseconds / 60_000) % 60)
  const seconds = two((milliseconds / 1000) % 60)
  return `${hours}:${minutes}:${seconds}${separator}${String(milliseconds % 1000).padStart(3, '0')}`
}
