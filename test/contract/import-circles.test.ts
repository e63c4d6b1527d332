import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** The files that each file imports: its types, and what it loads when it needs it, included. */
type Graph = ReadonlyMap<string, readonly string[]>

function readGraph(): Graph {
  const paths = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '--deduplicate', '*.ts'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  return new Map(
    paths
      .trim()
      .split('\n')
      .flatMap((path) => {
        const text = textOf(path)
        return text === null ? [] : [[path, importsOf(path, text)] as const]
      }),
  )
}

/** Returns `null` for a file that is deleted and not committed. */
function textOf(path: string): string | null {
  try {
    return readFileSync(join(ROOT, path), 'utf8')
  } catch {
    return null
  }
}

function importsOf(path: string, text: string): readonly string[] {
  const { staticImports, staticExports, dynamicImports } = parseSync(path, text).module
  return [
    ...staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? [])),
    ...dynamicImports.flatMap(
      ({ moduleRequest: { start, end } }) => /^['"`](.*)['"`]$/.exec(text.slice(start, end))?.[1] ?? [],
    ),
  ].flatMap((specifier) => {
    if (specifier.startsWith('#')) return specifier.replace(/^#(?=mp3|receipts)/, 'packages/').replace('#', '')
    return specifier.startsWith('.') ? join(dirname(path), specifier) : []
  })
}

/** Returns the circles that a walk along the imports meets, each as the files on it. */
function findCircles(graph: Graph): readonly string[] {
  const done = new Set<string>()
  const circles: string[] = []
  const visit = (path: string, trail: readonly string[]): void => {
    const at = trail.indexOf(path)
    if (at >= 0) circles.push([...trail.slice(at), path].join(' > '))
    if (at >= 0 || done.has(path)) return
    for (const imported of graph.get(path) ?? []) visit(imported, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) visit(path, [])
  return circles
}

it('finds a circle of types and of files that are loaded when they are needed', () => {
  const first = importsOf('one/a.ts', `import type { B } from './b.ts'\n`)
  const second = importsOf('one/b.ts', `export const open = async () => await import('../two/c.ts')\n`)
  const third = importsOf('two/c.ts', `export { d } from '#one/a.ts'\n`)
  const graph = new Map([
    ['one/a.ts', first],
    ['one/b.ts', second],
    ['two/c.ts', third],
  ])
  expect(findCircles(graph)).toEqual(['one/a.ts > one/b.ts > two/c.ts > one/a.ts'])
})

it('no file imports itself through others, not even when it is run', () => {
  const graph = readGraph()
  expect(graph.size).toBeGreaterThan(1000)
  expect(findCircles(graph)).toEqual([])
})
