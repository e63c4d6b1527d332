import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** What API, workers and the migration are made of. */
const PARTS = ['api', 'workers', 'shared', 'packages', 'infra', 'package.json']

/** Where the migrations of made-up versions are: those of 1.1, and what 1.2 has in addition. */
const MIGRATIONS = { '1.1.0': ['migrations'], '1.2.0': ['migrations', 'incompatible'] } as const
export type LaterVersion = keyof typeof MIGRATIONS

/** Creates a later version of this checkout in a new folder, which the caller removes: the same programs, with further migrations. */
export async function createLaterVersion(version: LaterVersion): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-later-'))
  for (const part of PARTS) await cp(join(ROOT, part), join(folder, part), { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const migrations of MIGRATIONS[version])
    await cp(fileURLToPath(new URL(migrations, import.meta.url)), join(folder, 'shared/ledger/migrations'), {
      recursive: true,
    })
  const description = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as object
  await writeFile(join(folder, 'package.json'), JSON.stringify({ ...description, version }))
  return folder
}

/** Runs `npm run migrate` of a version. Returns what it printed, on standard error where it failed. */
export async function migrateWith(
  folder: string,
  settings: { readonly ownerUrl: string; readonly serviceUrl: string },
): Promise<{ readonly exitCode: number; readonly output: string }> {
  const environment = { ...process.env, MIGRATION_DATABASE_URL: settings.ownerUrl, DATABASE_URL: settings.serviceUrl }
  return await promisify(execFile)(process.execPath, ['infra/commands/migrate/main.ts'], {
    cwd: folder,
    env: environment,
  }).then(
    ({ stdout }) => ({ exitCode: 0, output: stdout.trim() }),
    (error: { code: number; stderr: string }) => ({ exitCode: error.code, output: error.stderr.trim() }),
  )
}
