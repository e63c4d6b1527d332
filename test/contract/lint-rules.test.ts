import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ADAPTERS, DEEPEST_FOLDER, DOMAIN, HOUSES, LEDGER, WITHOUT_PORTS } from '../../oxlint.config.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const IMPORT_RULE = 'eslint(no-restricted-imports)'
/** Folders that hold no modules themselves. */
const NO_ROOMS = ['operator/assets', 'shared/adapters', 'shared/ledger/migrations']

/** Sibling folders, each with the siblings that it may import. */
type Rooms = Readonly<Record<string, readonly string[]>>

const target = (specifier: string) => `export { target } from '${specifier}'\n`
const targetType = (specifier: string) => `import type { Target } from '${specifier}'\nexport type Own = Target\n`

/** Files that each violate one rule, with the rule that must report it. */
const violations: Record<string, { text: string; rule: string }> = {
  'api/floating-query.ts': {
    text: `import type pg from 'pg'\nexport function forget(pool: pg.Pool): void {\n  pool.query('SELECT 1')\n}\n`,
    rule: 'typescript(no-floating-promises)',
  },
  'shared/adapters/floating-add.ts': {
    text: `import type { Queue } from 'bullmq'\nexport function forget(queue: Queue): void {\n  queue.add('run', {})\n}\n`,
    rule: 'typescript(no-floating-promises)',
  },
  'shared/money/cycle-a.ts': {
    text: `import { b } from './cycle-b.ts'\nexport const a: () => number = () => b()\n`,
    rule: 'import(no-cycle)',
  },
  'shared/money/cycle-b.ts': {
    text: `import { a } from './cycle-a.ts'\nexport const b: () => number = () => a()\n`,
    rule: 'import(no-cycle)',
  },
  'shared/money/type-cycle-a.ts': {
    text: `import type { B } from './type-cycle-b.ts'\nexport interface A {\n  readonly b: B | null\n}\n`,
    rule: 'import(no-cycle)',
  },
  'shared/money/type-cycle-b.ts': {
    text: `import type { A } from './type-cycle-a.ts'\nexport interface B {\n  readonly a: A | null\n}\n`,
    rule: 'import(no-cycle)',
  },
  'workers/reads-environment.ts': {
    text: `export const home = process.env['HOME']\n`,
    rule: 'node(no-process-env)',
  },
  'api/imports-worker.ts': { text: target('../workers/target.ts'), rule: IMPORT_RULE },
  'api/request/imports-worker.ts': { text: target('../../workers/target.ts'), rule: IMPORT_RULE },
  'workers/imports-api.ts': { text: target('../api/target.ts'), rule: IMPORT_RULE },
  'operator/imports-api.ts': { text: target('../api/target.ts'), rule: IMPORT_RULE },
  'api/imports-operator.ts': { text: target('../operator/target.ts'), rule: IMPORT_RULE },
  'workers/job/imports-operator.ts': { text: target('../../operator/target.ts'), rule: IMPORT_RULE },
  'operator/pages/deeper/imports-worker.ts': { text: target('../../../workers/target.ts'), rule: IMPORT_RULE },
  'operator/pages/deeper/imports-adapter.ts': { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE },
  'operator/composition/imports-api.ts': { text: target('../../api/target.ts'), rule: IMPORT_RULE },
  'shared/money/imports-operator.ts': { text: target('../../operator/target.ts'), rule: IMPORT_RULE },
  'shared/adapters/s3/imports-operator.ts': { text: target('../../../operator/target.ts'), rule: IMPORT_RULE },
  'workers/imports-test.ts': { text: target('../test/target.ts'), rule: IMPORT_RULE },
  'api/imports-adapter.ts': { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE },
  'api/routes/imports-adapter.ts': { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE },
  'api/routes/imports-ledger.ts': { text: target('#shared/ledger/reports/target.ts'), rule: IMPORT_RULE },
  'workers/imports-ledger.ts': { text: target('#shared/ledger/target.ts'), rule: IMPORT_RULE },
  'operator/pages/deeper/imports-ledger.ts': {
    text: target('#shared/ledger/reports/target.ts'),
    rule: IMPORT_RULE,
  },
  'workers/job/imports-chain.ts': { text: target('#shared/chain/target.ts'), rule: IMPORT_RULE },
  'shared/jobs/imports-ledger-type.ts': { text: targetType('#shared/ledger/target.ts'), rule: IMPORT_RULE },
  'api/dependencies.ts': { text: target('../workers/target.ts'), rule: IMPORT_RULE },
  'workers/composition/imports-api.ts': { text: target('../../api/target.ts'), rule: IMPORT_RULE },
  'workers/job/imports-composition.ts': { text: target('../composition/target.ts'), rule: IMPORT_RULE },
  'shared/money/imports-adapter.ts': { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE },
  'shared/money/imports-pg.ts': { text: `export { Pool } from 'pg'\n`, rule: IMPORT_RULE },
  'shared/money/imports-api.ts': { text: target('../../api/target.ts'), rule: IMPORT_RULE },
  'shared/adapters/imports-api.ts': { text: target('../../api/target.ts'), rule: IMPORT_RULE },
  'shared/adapters/s3/imports-api.ts': { text: target('../../../api/target.ts'), rule: IMPORT_RULE },
  'api/imports-client.ts': { text: target('../client/target.ts'), rule: IMPORT_RULE },
  'workers/job/imports-client.ts': { text: target('../../client/target.ts'), rule: IMPORT_RULE },
  'shared/money/imports-client.ts': { text: target('../../client/target.ts'), rule: IMPORT_RULE },
  'shared/adapters/s3/imports-client.ts': { text: target('../../../client/target.ts'), rule: IMPORT_RULE },
  'infra/deeper/imports-client.ts': { text: target('../../client/target.ts'), rule: IMPORT_RULE },
  'api/imports-package.ts': { text: `export { createFarebox } from 'farebox'\n`, rule: IMPORT_RULE },
}
for (const folder of ['api', 'workers', 'operator', 'shared/adapters', 'infra', 'test'])
  violations[`client/deeper/imports-${folder.replace('/', '-')}.ts`] = {
    text: target(`../../${folder}/target.ts`),
    rule: IMPORT_RULE,
  }
for (const folder of ['api', 'workers', 'operator', 'shared/money', 'infra', 'test', 'client'])
  violations[`packages/mp3/imports-${folder.replace('/', '-')}.ts`] = {
    text: target(`../../${folder}/target.ts`),
    rule: IMPORT_RULE,
  }
violations['packages/mp3/imports-domain.ts'] = { text: target('#shared/money/target.ts'), rule: IMPORT_RULE }
violations['packages/mp3/imports-zod.ts'] = { text: `export { z } from 'zod'\n`, rule: IMPORT_RULE }
violations['client/imports-domain.ts'] = { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE }

/** Imports that the rules allow. */
const allowed: Record<string, string> = {
  'workers/dependencies.ts': target('#shared/adapters/target.ts'),
  'workers/composition/imports-adapter.ts': target('#shared/adapters/target.ts'),
  'operator/composition/imports-adapter.ts': target('#shared/adapters/target.ts'),
  'api/imports-ledger-type.ts': targetType('#shared/ledger/target.ts'),
  'workers/job/imports-ledger-type.ts': targetType('#shared/ledger/execution/target.ts'),
  'workers/job/imports-chain-type.ts': targetType('#shared/chain/target.ts'),
  'operator/pages/deeper/imports-ledger-type.ts': targetType('#shared/ledger/reports/target.ts'),
  'shared/adapters/imports-pg.ts': `export { Pool } from 'pg'\n`,
  'client/deeper/imports-own.ts': target('../target.ts'),
  'client/deeper/imports-package.ts': target('../../packages/mp3/target.ts'),
  'api/request/imports-package.ts': target('#mp3/target.ts'),
  'shared/media/imports-package.ts': target('#mp3/target.ts'),
  'packages/mp3/imports-own.ts': target('./target.ts'),
  'packages/mp3/imports-node.ts': `export { join } from 'node:path'\n`,
  'test/imports-client.ts': target('../client/target.ts'),
}

for (const [house, rooms] of Object.entries(HOUSES)) {
  addRooms(
    rooms,
    (room) => `${house}/${room}`,
    (_, other, depth) => `${'../'.repeat(depth + 1)}${other}/target.ts`,
  )
  for (const room of Object.keys(rooms))
    for (let depth = 0; depth <= DEEPEST_FOLDER; depth++)
      violations[`${house}/${room}/${'deeper/'.repeat(depth)}imports-root.ts`] = {
        text: target(`${'../'.repeat(depth + 1)}target.ts`),
        rule: IMPORT_RULE,
      }
}
addRooms(
  DOMAIN,
  (room) => `shared/${room}`,
  (_, other) => `#shared/${other}/target.ts`,
)
addRooms(
  ADAPTERS,
  (room) => `shared/adapters/${room}`,
  (_, other) => `#shared/adapters/${other}/target.ts`,
)

for (const [room, importable] of Object.entries({ ...ADAPTERS, ledger: [], chain: [] } as Rooms))
  for (const other of WITHOUT_PORTS.filter((name) => name !== room)) {
    const path = `shared/${room in ADAPTERS ? 'adapters/' : ''}${room}/imports-${other}.ts`
    const text = target(`#shared/${other}/target.ts`)
    if (importable.includes(other)) allowed[path] = text
    else violations[path] = { text, rule: IMPORT_RULE }
  }
for (const room of WITHOUT_PORTS)
  violations[`shared/${room}/imports-adapter.ts`] = { text: target('#shared/adapters/target.ts'), rule: IMPORT_RULE }
addRooms(
  LEDGER,
  (room) => `shared/ledger/${room}`,
  (_, other) => `../${other}/target.ts`,
  0,
)
for (const room of Object.keys(LEDGER))
  violations[`shared/ledger/imports-${room}.ts`] = {
    text: target(`./${room}/target.ts`),
    rule: IMPORT_RULE,
  }

/** Adds a violating or an allowed file for each pair of sibling folders at each depth. */
function addRooms(
  rooms: Rooms,
  folderOf: (room: string) => string,
  specifierOf: (room: string, other: string, depth: number) => string,
  deepest = DEEPEST_FOLDER,
): void {
  for (const [room, importable] of Object.entries(rooms))
    for (const other of Object.keys(rooms).filter((name) => name !== room))
      for (let depth = 0; depth <= deepest; depth++) {
        const path = `${folderOf(room)}/${'deeper/'.repeat(depth)}imports-${other}.ts`
        const text = target(specifierOf(room, other, depth))
        if (importable.includes(other)) allowed[path] = text
        else violations[path] = { text, rule: IMPORT_RULE }
      }
}

let directory: string
let findings: readonly { code: string; filename: string }[]
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-lint-'))
  for (const name of ['oxlint.config.ts', 'tsconfig.json', 'package.json'])
    await cp(join(ROOT, name), join(directory, name))
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  const targets = [
    ...roomFolders(),
    'api',
    'workers',
    'operator',
    'test',
    'shared/adapters',
    'infra',
    'client',
    'packages/mp3',
  ].map((folder) => [`${folder}/target.ts`, 'export const target = 1\nexport type Target = 1\n'] as const)
  const texts = Object.entries(violations).map(([path, { text }]) => [path, text] as const)
  for (const [path, text] of [...targets, ...texts, ...Object.entries(allowed)]) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), text)
  }
  const oxlint = join(ROOT, 'node_modules/.bin/oxlint')
  const parameters = [
    oxlint,
    '--type-aware',
    '--format=json',
    'api',
    'client',
    'infra',
    'operator',
    'packages',
    'shared',
    'test',
    'workers',
  ]
  const run = promisify(execFile)(process.execPath, parameters, { cwd: directory, maxBuffer: 2 ** 26 })
  const { stdout } = await run.catch((error: { stdout: string }) => error)
  findings = (JSON.parse(stdout) as { diagnostics: typeof findings }).diagnostics
})
afterAll(() => rm(directory, { recursive: true, force: true }))

function roomFolders(): string[] {
  return [
    ...Object.entries(HOUSES).flatMap(([house, rooms]) => Object.keys(rooms).map((room) => `${house}/${room}`)),
    'api/composition',
    'workers/composition',
    'operator/composition',
    ...Object.keys(DOMAIN).map((room) => `shared/${room}`),
    ...Object.keys(ADAPTERS).map((room) => `shared/adapters/${room}`),
    ...WITHOUT_PORTS.map((room) => `shared/${room}`),
    ...Object.keys(LEDGER).map((room) => `shared/ledger/${room}`),
  ]
}

test.each(Object.entries(violations))('lint reports %s', (path, { rule }) => {
  expect(findings.filter(({ filename }) => filename === path).map(({ code }) => code)).toContain(rule)
})

test('lint accepts allowed imports', () => {
  expect(findings.filter(({ filename }) => filename in allowed)).toEqual([])
})

test('the allowed imports between folders are acyclic', () => {
  for (const rooms of [...Object.values(HOUSES), DOMAIN, ADAPTERS, LEDGER] as Rooms[]) {
    const below = (room: string): string[] => (rooms[room] ?? []).flatMap((other) => [other, ...below(other)])
    for (const room of Object.keys(rooms)) expect(below(room)).not.toContain(room)
  }
})

test.each(['api', 'workers', 'operator', 'shared', 'shared/adapters', 'shared/ledger'])(
  'the import rules list every folder of %s',
  async (house) => {
    const entries = await readdir(join(ROOT, house), { withFileTypes: true })
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${house}/${name}`)
    expect(roomFolders()).toEqual(expect.arrayContaining(folders.filter((folder) => !NO_ROOMS.includes(folder))))
  },
)

test('no folder is deeper than the import rules reach', async () => {
  const folders = await Promise.all(
    ['api', 'workers', 'operator'].map(async (house) => {
      const entries = await readdir(join(ROOT, house), { withFileTypes: true, recursive: true })
      return entries.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name))
    }),
  )
  const depths = folders.flat().map((folder) => folder.slice(ROOT.length).split('/').length - 2)
  expect(Math.max(...depths)).toBeLessThanOrEqual(DEEPEST_FOLDER)
})
