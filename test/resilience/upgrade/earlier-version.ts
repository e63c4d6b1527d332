import { execFile } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const run = promisify(execFile)

/**
 * Checks an earlier commit out of this repository's history into a new folder and installs its packages there. Returns
 * the folder, which the caller removes. Throws with what to do when the history does not contain the commit.
 */
export async function checkOutEarlierVersion(commit: string): Promise<string> {
  await run('git', ['-C', ROOT, 'cat-file', '-e', `${commit}^{commit}`]).catch(() => {
    throw new Error(
      `The history of this clone does not contain the commit ${commit}. Fetch the rest of it with "git fetch --unshallow", or pass --checkout with a folder that has that version installed.`,
    )
  })
  const folder = await mkdtemp(join(tmpdir(), 'farebox-earlier-'))
  await run('git', ['clone', '--quiet', '--no-checkout', ROOT, folder])
  await run('git', ['-C', folder, 'checkout', '--quiet', '--detach', commit])
  // No script of a package builds anything that API, worker or migrations need.
  await run('npm', ['ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder })
  return folder
}

/** Migrates the database with the migrations of a checkout. */
export async function migrateWith(checkout: string, databaseUrl: string): Promise<void> {
  await run(process.execPath, ['infra/commands/migrate/main.ts'], {
    cwd: checkout,
    env: { ...process.env, DATABASE_URL: databaseUrl },
  })
}
