import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { type MarkedTitle, readMarkedTitles, statementsOf, TABLE, untestedOf } from './specification-table.ts'

let page: string
let titles: readonly MarkedTitle[]
beforeAll(async () => {
  ;[page, titles] = await Promise.all([readFile(TABLE, 'utf8'), readMarkedTitles()])
})

test('every marker in a test title names a statement of the specification', () => {
  const statements = new Set(statementsOf(page))
  expect(statements.size).toBeGreaterThan(200)
  const unknown = titles.filter((title) => title.statements.some((id) => !statements.has(id)))
  expect(unknown).toEqual([])
})

test('every statement of the specification has a test or is listed as one without', () => {
  const tested = new Set(titles.flatMap(({ statements }) => statements))
  expect(statementsOf(page).filter((id) => !tested.has(id))).toEqual(untestedOf(page))
})
