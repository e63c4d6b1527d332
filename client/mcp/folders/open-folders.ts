import { allowFolders } from './allow-folders.ts'
import { FetchedRecordings, type FetchLimits } from './fetch-recording.ts'
import { findAllowed } from './find-allowed.ts'
import type { Folders, FoldersOptions } from './folders.ts'
import { guardedOutput } from './guarded-output.ts'
import { locateNew } from './locate.ts'
import { openAllowed, requireMeasured } from './read-allowed.ts'

/** Opens the folders that a person allows. Throws a `FareboxError` for one that cannot be allowed. */
export async function openFolders(options: FoldersOptions, limits?: FetchLimits): Promise<Folders> {
  const { folders, hidden, allowsPrivateAddresses = false } = options
  const allowed = await allowFolders(folders, hidden)
  const fetched = new FetchedRecordings(allowsPrivateAddresses, limits)
  return {
    roots: allowed.map(({ path }) => path),
    find: (path) => findAllowed(allowed, path),
    open: (path) => openAllowed(allowed, path),
    requireMeasured: (files, signal) => requireMeasured(allowed, files, signal),
    outputFolder: async (path) => (await locateNew(allowed, path)).path,
    output: guardedOutput(allowed),
    fetch: (url, fetchOptions) => fetched.fetch(url, fetchOptions),
    close: () => fetched.close(),
  }
}
