import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDERS = ['api', 'shared', 'test', 'workers']

/** One file for each rule that this project's lint must enforce, at the place where the rule holds. */
const breaches = {
  'api/floating-query.ts': `import type pg from 'pg'\nexport function forget(pool: pg.Pool): void {\n  pool.query('SELECT 1')\n}\n`,
  'shared/adapters/floating-add.ts': `import type { Queue } from 'bullmq'\nexport function forget(queue: Queue): void {\n  queue.add('run', {})\n}\n`,
  'shared/cycle-a.ts': `import { b } from './cycle-b.ts'\nexport const a: () => number = () => b()\n`,
  'shared/cycle-b.ts': `import { a } from './cycle-a.ts'\nexport const b: () => number = () => a()\n`,
  'api/imports-worker.ts': `export { target } from '../workers/target.ts'\n`,
  'workers/imports-api.ts': `export { target } from '../api/target.ts'\n`,
  'api/deep/imports-worker.ts': `export { target } from '../../workers/target.ts'\n`,
  'api/imports-adapter.ts': `export { target } from '#shared/adapters/target.ts'\n`,
  'shared/imports-adapter.ts': `export { target } from '#shared/adapters/target.ts'\n`,
  'shared/imports-pg.ts': `export { Pool } from 'pg'\n`,
  'shared/adapters/imports-api.ts': `export { target } from '../../api/target.ts'\n`,
  'workers/imports-test.ts': `export { target } from '../test/target.ts'\n`,
  'workers/reads-environment.ts': `export const home = process.env['HOME']\n`,
} as const

/** The same imports where they are allowed. */
const allowed = {
  'api/dependencies.ts': `export { target } from '#shared/adapters/target.ts'\n`,
  'workers/dependencies.ts': `export { target } from '#shared/adapters/target.ts'\n`,
  'shared/adapters/imports-pg.ts': `export { Pool } from 'pg'\n`,
  ...Object.fromEntries(
    ['api', 'workers', 'shared/adapters', 'test'].map((folder) => [`${folder}/target.ts`, 'export const target = 1\n']),
  ),
}

let directory: string
let findings: readonly { code: string; filename: string }[]
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-lint-'))
  for (const name of ['.oxlintrc.json', 'tsconfig.json', 'package.json'])
    await cp(join(ROOT, name), join(directory, name))
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  for (const [path, text] of Object.entries({ ...breaches, ...allowed })) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), text)
  }
  const oxlint = join(ROOT, 'node_modules/.bin/oxlint')
  const run = promisify(execFile)(process.execPath, [oxlint, '--type-aware', '--format=json', ...FOLDERS], {
    cwd: directory,
  })
  const { stdout } = await run.catch((error: { stdout: string }) => error)
  findings = (JSON.parse(stdout) as { diagnostics: typeof findings }).diagnostics
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const expected: Record<keyof typeof breaches, string> = {
  'api/floating-query.ts': 'typescript(no-floating-promises)',
  'shared/adapters/floating-add.ts': 'typescript(no-floating-promises)',
  'shared/cycle-a.ts': 'import(no-cycle)',
  'shared/cycle-b.ts': 'import(no-cycle)',
  'api/imports-worker.ts': 'eslint(no-restricted-imports)',
  'workers/imports-api.ts': 'eslint(no-restricted-imports)',
  'api/deep/imports-worker.ts': 'eslint(no-restricted-imports)',
  'api/imports-adapter.ts': 'eslint(no-restricted-imports)',
  'shared/imports-adapter.ts': 'eslint(no-restricted-imports)',
  'shared/imports-pg.ts': 'eslint(no-restricted-imports)',
  'shared/adapters/imports-api.ts': 'eslint(no-restricted-imports)',
  'workers/imports-test.ts': 'eslint(no-restricted-imports)',
  'workers/reads-environment.ts': 'node(no-process-env)',
}

test.each(Object.entries(expected))('%s is refused by %s', (path, rule) => {
  expect(findings.filter(({ filename }) => filename === path).map(({ code }) => code)).toContain(rule)
})

test('what is allowed is not refused', () => {
  expect(findings.filter(({ filename }) => filename in allowed)).toEqual([])
})
