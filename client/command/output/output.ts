import { formatUsdc } from '../../budget/usdc.ts'
import type { Io } from '../io.ts'
import { inAscii, printableLines, type Terminal, terminalOf } from './terminal.ts'

/** Characters that JSON allows unescaped but a terminal or line reader may act on. */
const ACTIVE = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g

/** Writes results to stdout and everything else to stderr. */
export type Output = ReturnType<typeof createOutput>

/** Returns the output of a command. */
export function createOutput({ stdout, stderr, environment }: Io, json: boolean) {
  const terminal = terminalOf(stderr, environment)
  const note = (text: string): void => void stderr.write(`${shown(text, terminal)}\n`)
  return {
    json,
    /** What stderr can show. */
    terminal,
    /** Writes the result of a command to stdout: text, or with `--json` the value as one line. */
    result(value: object, text: string): void {
      if (json) stdout.write(jsonLine(value))
      else stdout.write(`${shown(text, terminalOf(stdout, environment))}\n`)
    },
    /** Writes one line of NDJSON to stdout, only with `--json`. */
    event: (value: object): void => {
      if (json) stdout.write(jsonLine(value))
    },
    /** Writes a transcript, an image or sound to stdout as it is; returns whether it was taken. */
    content: (bytes: string | Uint8Array) =>
      new Promise<boolean>((resolve) => {
        // A reader that has left is no error: what was asked for is done.
        stdout.write(bytes, (error) => resolve(error === undefined || error === null))
      }),
    note,
    warn: (text: string): void => {
      stderr.write(`${terminal.paint('yellow', 'warning:')} ${shown(text, terminal)}\n`)
    },
    /** Writes to a terminal's last line as it is. */
    status: (text: string): void => {
      if (terminal.isTerminal) stderr.write(text)
    },
    /** Reports what failed while the command goes on. */
    failure: (text: string): void => {
      stderr.write(`${terminal.paint('red', 'failed:')} ${shown(text, terminal)}\n`)
    },
    /** Reports why the command ends; with `--json` on stdout as well. */
    error(error: unknown): void {
      const { problem, stack } = describe(error, environment)
      stderr.write(`${terminal.paint('red', 'error:')} ${shown(problem, terminal)}\n`)
      if (stack !== undefined) stderr.write(`${shown(stack, terminal)}\n`)
      if (json) stdout.write(jsonLine({ event: 'error', ...errorForm(asError(error)) }))
    },
  }
}

/** Makes a text safe and readable for a terminal. */
function shown(text: string, { unicode }: Terminal): string {
  const safe = printableLines(text)
  return unicode ? safe : inAscii(safe)
}

function describe(error: unknown, environment: Io['environment']): { problem: string; stack?: string | undefined } {
  const described = asError(error)
  // Node reads source maps for a stack only when it is asked for.
  return environment['FAREBOX_DEBUG']
    ? { problem: described.message, stack: described.stack }
    : { problem: described.message }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

/** Renders one line of NDJSON: names in snake_case, atomic amounts as decimal USDC. */
export function jsonLine(value: object): string {
  const json = JSON.stringify(wireForm(value))
  return `${json.replace(ACTIVE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

function wireForm(value: unknown): unknown {
  if (typeof value === 'bigint') return formatUsdc(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Error) return errorForm(value)
  if (Array.isArray(value)) return value.map(wireForm)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [snakeCase(name), wireForm(member)]))
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** What a program needs to go on after an error. */
function errorForm(error: Error): Record<string, unknown> {
  const { code = 'unexpected', money, advice, key, requestId } = error as Error & Record<string, unknown>
  return { code, message: error.message, money, advice, key, request_id: requestId }
}
