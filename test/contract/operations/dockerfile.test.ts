import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import dockerIgnore from '@balena/dockerignore'
import { DockerfileParser } from 'dockerfile-ast'
import { validate } from 'dockerfile-utils'
import { expect, test } from 'vitest'
import { readGraph } from '../../support/import-graph.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const TEXT = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
const dockerfile = DockerfileParser.parse(TEXT)
const values = (keyword: string) =>
  dockerfile
    .getInstructions()
    .filter((instruction) => instruction.getKeyword() === keyword)
    .map((instruction) => instruction.getArgumentsContent() ?? '')
/** Paths of the repository; an absolute one is of an earlier stage. */
const COPIED = values('COPY')
  .flatMap((copy) => copy.split(' ').slice(0, -1))
  .filter((path) => !path.startsWith('/'))
/** Works on the repository. */
const NOT_IN_IMAGE = ['infra/commands/complete-lockfile/main.ts']

/** Returns what the programs of the image import, and what those files import. */
function filesOfPrograms(): readonly string[] {
  const graph = readGraph()
  const commands = readdirSync(join(ROOT, 'infra/commands'))
    .map((name) => `infra/commands/${name}/main.ts`)
    .filter((path) => graph.has(path))
  const found = new Set(['api/main.ts', 'workers/main.ts', 'operator/main.ts', ...commands])
  for (const path of NOT_IN_IMAGE) found.delete(path)
  // A set that grows is walked to its new end.
  for (const path of found) for (const imported of graph.get(path) ?? []) found.add(imported)
  return [...found]
}

const covers = (copied: string) => (path: string) => path === copied || path.startsWith(`${copied}/`)

test('the Dockerfile passes its linter', () => {
  expect(validate(TEXT)).toEqual([])
})

test('every stage of the Dockerfile starts from the exact Node version of the tests', () => {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const bases = dockerfile.getFROMs().map((from) => from.getImage())
  expect(new Set(bases)).toEqual(new Set([`node:${devDependencies.node}-bookworm-slim`]))
})

test('the Dockerfile sets a numeric user other than root, and SIGTERM as its stop signal', () => {
  expect(values('USER')).toEqual(['1000:1000'])
  expect(values('STOPSIGNAL')).toEqual(['SIGTERM'])
})

test('the image holds what its programs import, and names no code that none of them does', () => {
  const files = filesOfPrograms()
  const hidden = dockerIgnore.default().add(readFileSync(join(ROOT, '.dockerignore'), 'utf8'))
  const code = COPIED.filter((path) => !/\.(?:json|mp3)$|^LICENSE$/.test(path))
  expect(files.length).toBeGreaterThan(500)
  expect(files.filter((path) => !code.some((copied) => covers(copied)(path)))).toEqual([])
  expect(files.filter((path) => hidden.ignores(path))).toEqual([])
  expect(code.filter((copied) => !files.some(covers(copied)))).toEqual([])
})
