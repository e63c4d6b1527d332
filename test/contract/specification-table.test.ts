import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

const TABLE = new URL('specification.md', import.meta.url)
const TESTS = new URL('../', import.meta.url)

interface Row {
  readonly statement: string
  readonly file: string
  readonly title: string
}

const inCode = (cell: string | undefined) => /^`(.+)`$/.exec(cell?.trim() ?? '')?.[1] ?? ''

/** The rows that name a test: their last two cells are its file and its title, both as code. */
function rowsOf(table: string): readonly Row[] {
  const rows = table.split('\n').filter((line) => /^\| .*\.ts`\s*\|/.test(line))
  return rows.map((line) => {
    const cells = line.split('|').slice(1, -1)
    return { statement: cells[0]?.trim() ?? '', file: inCode(cells.at(-2)), title: inCode(cells.at(-1)) }
  })
}

/** Whether the source has this title as the first argument of a call, or as the name of a case in a table. */
function hasTitle(source: string, title: string): boolean {
  const literal = title.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
  return new RegExp(String.raw`(?:\(|name: |^\s*)(['"\x60])${literal}\1`, 'm').test(source)
}

async function isMissing({ file, title }: Row): Promise<boolean> {
  if (file === '' || title === '') return true
  const source = await readFile(new URL(file, TESTS), 'utf8').catch(() => '')
  return !hasTitle(source, title)
}

test('every test that the table names is there', async () => {
  const rows = rowsOf(await readFile(TABLE, 'utf8'))
  expect(rows.length).toBeGreaterThan(100)
  const missing = await Promise.all(rows.map(async (row) => ((await isMissing(row)) ? [row] : [])))
  expect(missing.flat()).toEqual([])
})
