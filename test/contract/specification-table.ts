import { glob, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

export const TABLE = new URL('specification.md', import.meta.url)
const TESTS = fileURLToPath(new URL('../', import.meta.url))

/** A test title, or the title of a group of tests, that ends with `[spec …]`. */
export interface MarkedTitle {
  /** Below `test/`. */
  readonly file: string
  /** As in the source, without the marker. */
  readonly title: string
  readonly statements: readonly string[]
}

/** A row of the page that has an identifier. */
const ROW = /^\| ([A-Z]\d+[a-z]?)\s*\|/
/** A string literal that ends with a marker. */
const MARKED_LITERAL = /(['"`])((?:(?!\1)[^\n\\])*) \[spec ([^\]\n]*)\]\1/g

/** Reads the marked titles of all tests, in the order of their files. */
export async function readMarkedTitles(): Promise<readonly MarkedTitle[]> {
  const files: string[] = []
  for await (const file of glob('**/*.ts', { cwd: TESTS })) files.push(file)
  const titles = await Promise.all(
    files.sort().map(async (file) => {
      const source = await readFile(`${TESTS}${file}`, 'utf8')
      return [...source.matchAll(MARKED_LITERAL)].map(([, , title = '', statements = '']) => ({
        file,
        title,
        statements: statements.split(', '),
      }))
    }),
  )
  return titles.flat()
}

/** Returns the identifiers of the page's statements. */
export function statementsOf(page: string): readonly string[] {
  return [...new Set(page.split('\n').flatMap((line) => ROW.exec(line)?.[1] ?? []))]
}

/** Returns the identifiers that the page lists as statements without a test. */
export function untestedOf(page: string): readonly string[] {
  const [, untested = ''] = page.split('\n## Without a test\n')
  return [...untested.matchAll(/^- ([A-Z]\d+[a-z]?)\b/gm)].map(([, id = '']) => id)
}

/**
 * Returns the page with the last two cells of each row, the file and the title of a test, as the markers say. The cells
 * before them are written by hand. A statement with several tests has a row for each.
 */
export function withTests(page: string, titles: readonly MarkedTitle[]): string {
  return page.replace(/^\|.*\n(?:\|.*\n)+/gm, (table) => {
    const [header = [], , ...rows] = table.trimEnd().split('\n').map(cellsOf)
    const statements = new Map(rows.map((cells) => [cells[0] ?? '', cells.slice(0, -2)]))
    const written = [...statements].flatMap(([id, cells]) => {
      const tests = titles.filter((title) => title.statements.includes(id))
      if (tests.length === 0) return [[...cells, '–', '–']]
      return tests.map(({ file, title }) => [...cells, `\`${file}\``, `\`${title}\``])
    })
    return aligned([header, ...written])
  })
}

function cellsOf(row: string): readonly string[] {
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())
}

/** Writes a table as the formatter does. */
function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |\n`
  const [header = [], ...others] = rows
  return [header, widths.map((width) => '-'.repeat(width)), ...others].map(line).join('')
}
