import { basename } from 'node:path'
import type { Source } from '../../batch/types.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { Exchange, McpSession } from '../tool.ts'

/** What a call names: one of both. */
export interface Named {
  readonly path?: string | undefined
  readonly url?: string | undefined
}

/** The recordings of one call. */
export interface Recordings {
  readonly kind: 'file' | 'folder' | 'url'
  readonly sources: readonly Source[]
  /** Entries of the folder that lead out of the allowed folders or cannot be read. */
  readonly leftOut: number
}

const BYTES_PER_REPORT = 4 * 1024 * 1024
const LONGEST_NAME = 100

/** Finds the recordings at a path, or fetches the one of a URL. */
export async function findRecordings(
  { folders }: Pick<McpSession, 'folders'>,
  { signal }: Pick<Exchange, 'signal'>,
  { path, url }: Named,
  report: (message: string) => void,
): Promise<Recordings> {
  if ((path === undefined) === (url === undefined)) throw oneOfBoth()
  if (path !== undefined) return await folders.find(path)
  const named = url ?? ''
  let reported = 0
  const fetched = await folders.fetch(named, {
    signal,
    onProgress: (bytes) => {
      if (bytes - reported < BYTES_PER_REPORT) return
      reported = bytes
      report(`fetched ${Math.floor(bytes / 1024 / 1024)} MiB`)
    },
  })
  const source = { path: fetched.path, label: 'The recording of the URL', name: nameOf(named) }
  return { kind: 'url', sources: [source], leftOut: 0 }
}

/** Returns the last part of a URL's path as a name that is safe to write. */
function nameOf(url: string): string {
  const name = basename(new URL(url).pathname)
    .replace(/[^\w.-]+/g, '_')
    .replace(/^\.+/, '')
  return name.slice(-LONGEST_NAME) || 'recording'
}

function oneOfBoth(): FareboxError {
  return new FareboxError({
    code: 'invalid_arguments',
    problem: 'A call names either a path or a url.',
    money: 'none',
    advice: 'Name one of both.',
  })
}
