import { columnsOf } from '../../subtitles/width.ts'
import { printable } from '../output/terminal.ts'

const GAP = '  '

/** Renders rows under a heading, if there is one; `right` are columns of numbers, from 0. */
export function renderTable(
  heading: readonly string[] | null,
  rows: readonly (readonly string[])[],
  { right = [] }: { readonly right?: readonly number[] } = {},
): string {
  const lines = (heading === null ? rows : [heading, ...rows]).map((cells) => cells.map(printable))
  const columns = Math.max(...lines.map(({ length }) => length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...lines.map((cells) => columnsOf(cells[column] ?? ''))),
  )
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => {
          const padding = ' '.repeat((widths[column] ?? 0) - columnsOf(cell))
          return right.includes(column) ? padding + cell : cell + padding
        })
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

/** Renders names and values, one pair a line. */
export function renderFacts(facts: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...facts.map(([name]) => columnsOf(name)))
  return facts
    .map(([name, value]) => `${name}${' '.repeat(width - columnsOf(name))}${GAP}${printable(value)}`)
    .join('\n')
}
