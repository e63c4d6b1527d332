import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const VERSION_TIMEOUT_MS = 5000

/** What decides how an upload is judged: the frame walk, and the comparison with what ffmpeg decodes. */
const RULES = [
  new URL('../../../packages/mp3/', import.meta.url),
  new URL('../../../shared/audio/', import.meta.url),
  new URL('../../../shared/runtime/limited-process.ts', import.meta.url),
  ...['plan-decode.ts', 'ffmpeg-process.ts', 'decode-with-ffmpeg.ts'].map((name) => new URL(name, import.meta.url)),
]

/**
 * Creates a function that returns what identifies this inspector, in hex: a digest of ffmpeg's versions and of the code
 * that it is compared by. Two processes that could judge the same bytes differently differ in it, without anybody having
 * to count up a version. Computed once, when it is first needed; a failure is repeated.
 */
export function createInspectorIdentity(ffmpegPath: string): () => Promise<string> {
  let known: Promise<string> | undefined
  return async () => {
    known ??= identify(ffmpegPath)
    try {
      return await known
    } catch (error) {
      known = undefined
      throw error
    }
  }
}

async function identify(ffmpegPath: string): Promise<string> {
  const hash = createHash('sha256')
  const limits = { timeout: VERSION_TIMEOUT_MS, killSignal: 'SIGKILL' } as const
  const { stdout } = await promisify(execFile)(ffmpegPath, ['-version'], limits)
  hash.update(stdout)
  for (const rules of RULES) for (const file of await filesOf(rules)) hash.update(await readFile(file))
  return hash.digest('hex')
}

/** Returns a file itself, and the files of a folder in order. */
async function filesOf(location: URL): Promise<readonly URL[]> {
  if (!location.pathname.endsWith('/')) return [location]
  return (await readdir(location)).sort().map((name) => new URL(name, location))
}
