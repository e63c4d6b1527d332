import { readFile } from 'node:fs/promises'
import { describe, expect, it, test } from 'vitest'
import { changeSyntax, removeIf, replaceCall, replaceSql, type SyntaxChange } from './change-syntax.ts'
import { mutations } from './mutation-list.ts'

const ROOT = new URL('../../../', import.meta.url)

it.each(mutations.filter(({ changes }) => changes))(
  'a mutation finds exactly one place for each change, and its result parses: $name',
  async ({ changes = [] }) => {
    for (const [file, changesOfFile] of Map.groupBy(changes, (change) => change.file)) {
      const source = await readFile(new URL(file, ROOT), 'utf8')
      expect(changeSyntax(source, changesOfFile)).not.toBe(source)
    }
  },
)

const within = (change: SyntaxChange['change']): readonly SyntaxChange[] => [{ file: 'x.ts', within: 'f', change }]

describe('a syntax change', () => {
  test('a change applies only inside the named declaration', () => {
    const source = 'function f() { return a(1) }\nfunction g() { return a(1) }'
    expect(changeSyntax(source, within(replaceCall('a', 'b()')))).toBe(
      'function f() { return b() }\nfunction g() { return a(1) }',
    )
  })

  test('a change finds a SQL statement by its name', () => {
    const source = "query({ name: 'f', text: 'WHERE id = $1 AND fence = $2' })"
    expect(changeSyntax(source, within(replaceSql('fence = $2', 'fence >= $2')))).toContain(
      'WHERE id = $1 AND fence >= $2',
    )
  })

  test('a change removes the innermost if statement', () => {
    const source = "function f(a) { if (a) { if (a.b === 'c') return } }"
    expect(changeSyntax(source, within(removeIf('a', 'c')))).toBe('function f(a) { if (a) { ; } }')
  })

  test.each([
    ['no place', 'function f() {}', 'found 0 calls of a'],
    ['two places', 'function f() { a(); a() }', 'found 2 calls of a'],
    ['no declaration', 'function g() { a() }', 'found 0 declarations of f'],
  ])('a change throws when it finds %s', (_, source, message) => {
    expect(() => changeSyntax(source, within(replaceCall('a', 'b()')))).toThrow(message)
  })

  test('a change throws when its result does not parse', () => {
    expect(() => changeSyntax('function f() { a() }', within(replaceCall('a', 'b(')))).toThrow('does not parse')
  })
})
