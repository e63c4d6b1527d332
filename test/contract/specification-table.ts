import { glob, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { STATEMENTS } from './specification.ts'

const TESTS = fileURLToPath(new URL('../', import.meta.url))

/** A test title, or the title of a group of tests, that ends with `[spec …]`. */
export interface MarkedTitle {
  /** Below `test/`. */
  readonly file: string
  /** As in the source, without the marker. */
  readonly title: string
  readonly statements: readonly string[]
}

/** A string literal that ends with a marker. */
const MARKED_LITERAL = /(['"`])((?:(?!\1)[^\n\\])*) \[spec ([^\]\n]*)\]\1/g

const exclude = (path: string) => path.includes('node_modules')

/** Reads the marked titles of all tests, in the order of their files. */
export async function readMarkedTitles(): Promise<readonly MarkedTitle[]> {
  const files: string[] = []
  for await (const file of glob('**/*.ts', { cwd: TESTS, exclude })) files.push(file)
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

/** Returns the table of statements and the tests that prove them, a row for each pair, in Markdown. */
export function renderTable(titles: readonly MarkedTitle[]): string {
  const sections = Object.entries(STATEMENTS).map(([heading, statements]) => {
    const rows = Object.entries(statements).flatMap(([id, statement]) => {
      const tests = titles.filter((title) => title.statements.includes(id))
      if (tests.length === 0) return [`| ${id} | ${statement} | – | – |`]
      return tests.map(({ file, title }) => `| ${id} | ${statement} | \`${file}\` | \`${title}\` |`)
    })
    return [`## ${heading}\n`, '| id | statement | test file | test |', '| --- | --- | --- | --- |', ...rows].join('\n')
  })
  return `${sections.join('\n\n')}\n`
}

if (import.meta.main) process.stdout.write(renderTable(await readMarkedTitles()))
