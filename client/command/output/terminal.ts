import { styleText } from 'node:util'
import type { Io, OutputStream } from '../io.ts'

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

type Color = Parameters<typeof styleText>[0]

/** What a stream can show. */
export type Terminal = ReturnType<typeof terminalOf>

const DEFAULT_COLUMNS = 80
const DEFAULT_ROWS = 24

/** Describes the terminal behind a stream. NO_COLOR, FORCE_COLOR, TERM and COLUMNS are respected. */
export function terminalOf(stream: OutputStream, environment: Io['environment']) {
  const isTerminal = stream.isTTY === true
  const hasColors = isForced(environment) ?? (isTerminal && showsColors(stream, environment))
  return {
    isTerminal,
    unicode: !isTerminal || showsUnicode(environment),
    // The stream was asked above; Node's own check would read the environment of the process.
    paint: (color: Color, text: string): string =>
      hasColors ? styleText(color, text, { validateStream: false }) : text,
    columns: () => stream.columns || positive(environment['COLUMNS']) || DEFAULT_COLUMNS,
    rows: () => stream.rows || positive(environment['LINES']) || DEFAULT_ROWS,
  }
}

/** As in Node, FORCE_COLOR comes before NO_COLOR and before what the stream is. */
function isForced({ FORCE_COLOR: force }: Io['environment']): boolean | undefined {
  return force === undefined ? undefined : force !== '0' && force !== 'false'
}

function showsColors(stream: OutputStream, environment: Io['environment']): boolean {
  return stream.hasColors?.(2, environment) === true && !environment['NO_COLOR']
}

/** A locale that names another character set, or the bare C locale, has no UTF-8; without a locale it is likely. */
function showsUnicode(environment: Io['environment']): boolean {
  const locale = [environment['LC_ALL'], environment['LC_CTYPE'], environment['LANG']].find((value) => value)
  return locale === undefined || /utf-?8/i.test(locale)
}

function positive(text: string | undefined): number {
  const number = Number(text)
  return Number.isInteger(number) && number > 0 ? number : 0
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
