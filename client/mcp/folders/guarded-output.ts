import { lstat, rm, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { whyUnwritable } from '../../batch/output/output-error.ts'
import type { OutputFiles } from '../../batch/types.ts'
import { replaceFile } from '../../files/replace-file.ts'
import { temporaryIn } from '../../files/temporary-file.ts'
import { FareboxError, type MoneyState } from '../../wire/farebox-error.ts'
import { type AllowedFolder, locateNew } from './locate.ts'
import { OpenFolder } from './open-folder.ts'

/** More than the transcripts of most recordings have. */
const PROBE_BYTES = 64 * 1024

/** Writes into allowed folders only. A link on the way is refused, also one that is put there meanwhile. */
export function guardedOutput(allowed: readonly AllowedFolder[]): OutputFiles {
  return {
    requireWritable: async (paths) => {
      for (const folder of new Set(paths.map((path) => dirname(path))))
        await inFolder(allowed, folder, 'none', async (open) => {
          await probe(open)
          for (const path of paths.filter((each) => dirname(each) === folder)) await requireUsableName(open, path)
        })
    },
    write: async (path, text) =>
      await inFolder(allowed, dirname(path), 'settled', (folder) =>
        replaceFile(folder.at(basename(path)), text, { followsLinks: false }),
      ),
  }
}

/** Does something in a folder, which is created first. */
async function inFolder(
  allowed: readonly AllowedFolder[],
  path: string,
  money: MoneyState,
  use: (folder: OpenFolder) => Promise<void>,
): Promise<void> {
  let folder: OpenFolder | undefined
  try {
    const { root, names } = await locateNew(allowed, path)
    folder = await OpenFolder.open(root, names, { creates: true })
    await use(folder)
  } catch (error) {
    if (error instanceof FareboxError && error.money === money) throw error
    throw unwritable(path, error, money)
  } finally {
    await folder?.close()
  }
}

/** Writes a file and removes it: permissions alone do not show quotas, full disks and read-only mounts. */
async function probe(folder: OpenFolder): Promise<void> {
  const path = folder.at(basename(temporaryIn('.')))
  try {
    await writeFile(path, new Uint8Array(PROBE_BYTES), { flag: 'wx', mode: 0o600 })
  } finally {
    await rm(path, { force: true }).catch(() => undefined)
  }
}

async function requireUsableName(folder: OpenFolder, path: string): Promise<void> {
  const found = await lstat(folder.at(basename(path))).catch(() => null)
  if (found !== null && !found.isFile()) throw unwritable(path, new Error('it is a link or a folder'), 'none')
}

function unwritable(path: string, cause: unknown, money: MoneyState): FareboxError {
  const why = cause instanceof FareboxError ? cause.problem : whyUnwritable(cause)
  return new FareboxError({
    code: 'output_unwritable',
    problem: `${path} cannot be written (${why})`,
    money,
    advice: 'Make room or name another output_folder, then repeat the call: it pays only for what is missing.',
    cause,
  })
}
