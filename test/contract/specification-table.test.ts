import { beforeAll, expect, test } from 'vitest'
import { type MarkedTitle, readMarkedTitles, renderTable } from './specification-table.ts'
import { STATEMENTS, UNTESTED } from './specification.ts'

const ids = Object.values(STATEMENTS).flatMap(Object.keys)
let titles: readonly MarkedTitle[]
beforeAll(async () => {
  titles = await readMarkedTitles()
})

test('every statement of the specification has one identifier', () => {
  expect(ids.length).toBeGreaterThan(200)
  expect(new Set(ids).size).toBe(ids.length)
})

test('every marker in a test title names a statement of the specification', () => {
  const unknown = titles.filter((title) => title.statements.some((id) => !ids.includes(id)))
  expect(unknown).toEqual([])
})

test('every statement of the specification has a test or is listed as one without', () => {
  const tested = new Set(titles.flatMap(({ statements }) => statements))
  expect(ids.filter((id) => !tested.has(id))).toEqual(UNTESTED)
})

test('the table that CI prints names every statement with each of its tests', () => {
  const rows = new Set(renderTable(titles).split('\n'))
  const missing = titles.flatMap(({ file, title, statements }) =>
    statements.filter(
      (id) => ![...rows].some((row) => row.startsWith(`| ${id} |`) && row.endsWith(`| \`${file}\` | \`${title}\` |`)),
    ),
  )
  expect(missing).toEqual([])
  expect(ids.filter((id) => ![...rows].some((row) => row.startsWith(`| ${id} |`)))).toEqual([])
})
