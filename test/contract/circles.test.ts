import { glob, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Returns what a module imports at any time: lint sees no circle that goes through `await import()`. */
async function importsOf(file: string): Promise<string[]> {
  const text = await readFile(join(ROOT, file), 'utf8')
  const { staticImports, staticExports, dynamicImports } = parseSync(file, text).module
  const specifiers = [
    ...staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? [])),
    ...dynamicImports.map(({ moduleRequest }) => text.slice(moduleRequest.start + 1, moduleRequest.end - 1)),
  ]
  return specifiers.filter((one) => one.startsWith('.')).map((one) => relative(ROOT, join(ROOT, dirname(file), one)))
}

/** Returns the modules from which one leads back to itself, in the order of the imports. */
function circleFrom(start: string, graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const via = new Map<string, string>()
  const waiting = [start]
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift())
    for (const imported of graph.get(file) ?? []) {
      if (imported === start) return pathTo(file, via)
      if (!via.has(imported)) {
        via.set(imported, file)
        waiting.push(imported)
      }
    }
  return undefined
}

function pathTo(file: string, via: ReadonlyMap<string, string>): string[] {
  const before = via.get(file)
  return before === undefined ? [file] : [...pathTo(before, via), file]
}

test('no module imports itself through others, not even through an import that is made later', async () => {
  const folders = glob('{api,client,infra,operator,packages,workers}/**/*.ts', {
    cwd: ROOT,
    exclude: (path) => path.endsWith('node_modules') || path === 'client/dist',
  })
  const files: string[] = []
  for await (const file of folders) files.push(file)
  expect(files).toContain('client/farebox.ts')
  const graph = new Map(await Promise.all(files.map(async (file) => [file, await importsOf(file)] as const)))
  expect(files.flatMap((file) => [circleFrom(file, graph) ?? []]).filter((circle) => circle.length > 0)).toEqual([])
})
