import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync, readFileSync, readSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseObject } from '../../wire/json.ts'

const NEWLINE = 0x0a

/**
 * A file of JSON lines that several processes append to. It holds what spares work; nothing that money depends on. A
 * line that was written in part is ignored.
 */
export class AppendedLines {
  readonly #path: string
  #isWhole: boolean | undefined

  constructor(path: string) {
    this.#path = path
  }

  read(): object[] {
    let text: string
    try {
      text = readFileSync(this.#path, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
    return text
      .split('\n')
      .map((line) => parseObject(line))
      .filter((value) => value !== undefined)
  }

  /** Writes lines by one call, so that those of other processes are not among them. */
  append(...values: readonly unknown[]): void {
    if (values.length === 0) return
    const lines = values.map((value) => `${JSON.stringify(value)}\n`).join('')
    this.#isWhole ??= endsWithNewline(this.#path)
    const start = this.#isWhole ? '' : '\n'
    this.#isWhole = false
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 })
    appendFileSync(this.#path, start + lines, { mode: 0o600 })
    this.#isWhole = true
  }
}

function endsWithNewline(path: string): boolean {
  let descriptor: number
  try {
    descriptor = openSync(path, 'r')
  } catch {
    return true
  }
  try {
    const { size } = fstatSync(descriptor)
    const last = Buffer.alloc(1)
    return size === 0 || (readSync(descriptor, last, 0, 1, size - 1) === 1 && last[0] === NEWLINE)
  } finally {
    closeSync(descriptor)
  }
}
