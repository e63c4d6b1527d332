import { dirname, relative } from 'node:path'
import type { PlannedFile } from '../../batch/types.ts'
import { printable } from '../output/printable.ts'

/** Renders a file with its transcripts, such as `talks/a.mp3 → a.srt, a.txt`. */
export function withOutputs({ path, label, outputs }: PlannedFile): string {
  const names = outputs.map((output) => {
    const name = relative(dirname(path), output)
    return printable(name.startsWith('..') ? output : name)
  })
  return names.length === 0 ? printable(label) : `${printable(label)} → ${names.join(', ')}`
}

/** Renders a message about a file, which may begin with its path already. */
export function withLabel({ path, label }: PlannedFile, message: string): string {
  const named = [path, label].find((name) => message.startsWith(`${name}: `))
  return `${printable(label)}: ${printable(named === undefined ? message : message.slice(named.length + 2))}`
}
