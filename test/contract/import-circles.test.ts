import { expect, it } from 'vitest'
import { type Graph, importsOf, readGraph } from '../support/import-graph.ts'

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
