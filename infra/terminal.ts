import { styleText } from 'node:util'

/** Colors text on a terminal; plain in a pipe, with NO_COLOR and in CI (`styleText` checks the stream). */
const style = (format: Parameters<typeof styleText>[0], text: string) =>
  styleText(format, text, { stream: process.stdout, validateStream: true })

const LABEL_WIDTH = 12

export function printTitle(text: string): void {
  console.log(`\n${style('bold', text)}`)
}

/** Prints `label` in the left column and the lines in the right one. */
export function printField(label: string, ...lines: readonly string[]): void {
  const [first = '', ...rest] = lines
  console.log(`  ${style('dim', label.padEnd(LABEL_WIDTH))} ${first}`)
  for (const line of rest) console.log(`  ${' '.repeat(LABEL_WIDTH)} ${line}`)
}

/** Prints one completed step of a startup. */
export function printStep(name: string, detail: string, milliseconds: number): void {
  const time = `${(milliseconds / 1000).toFixed(2)} s`
  console.log(`  ${style('green', '✓')} ${name.padEnd(LABEL_WIDTH - 2)} ${detail} ${style('dim', time)}`)
}

export function printProblem(text: string): void {
  console.error(style('red', text))
}

export function highlight(text: string): string {
  return style('cyan', text)
}

/** Breaks a text at spaces into lines of at most `width` characters. */
export function wrapText(text: string, width = 88): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + word.length + 1 > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return line === '' ? lines : [...lines, line]
}
