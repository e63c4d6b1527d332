import { styleText } from 'node:util'
import type { Io, OutputStream } from '../io.ts'

export type Color = Parameters<typeof styleText>[0]

/** What a stream can show. */
export interface Terminal {
  readonly isTerminal: boolean
  readonly unicode: boolean
  paint(color: Color, text: string): string
  columns(): number
  rows(): number
}

const DEFAULT_COLUMNS = 80
const DEFAULT_ROWS = 24

/** Describes the terminal behind a stream. NO_COLOR, FORCE_COLOR, TERM and COLUMNS are respected. */
export function terminalOf(stream: OutputStream, environment: Io['environment']): Terminal {
  const isTerminal = stream.isTTY === true
  const hasColors = isForced(environment) ?? (isTerminal && showsColors(stream, environment))
  return {
    isTerminal,
    unicode: !isTerminal || showsUnicode(environment),
    // The stream was asked above; Node's own check would read the environment of the process.
    paint: (color, text) => (hasColors ? styleText(color, text, { validateStream: false }) : text),
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
