import { readdir, readFile, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createRandom } from '../calls/random.ts'

const TRANSCRIPT = /\.txt$/

/** Counts the finished transcripts in a folder that may not exist yet. */
export async function countTranscripts(folder: string): Promise<number> {
  return (await listFiles(folder)).filter((path) => TRANSCRIPT.test(path)).length
}

/** Reads the transcripts by the name of the recording, and lists all other files. */
export async function readOutputs(folder: string) {
  const paths = await listFiles(folder)
  const transcripts = new Map<string, string>()
  const strayFiles: string[] = []
  for (const path of paths) {
    if (TRANSCRIPT.test(path)) transcripts.set(basename(path, '.txt'), await readFile(path, 'utf8'))
    else strayFiles.push(path.slice(folder.length + 1))
  }
  return { transcripts, strayFiles }
}

/** Deletes about half of the transcripts, determined by the seed and their names. */
export async function loseHalf(folder: string, seed: number): Promise<void> {
  const random = createRandom(seed)
  for (const path of (await listFiles(folder)).toSorted()) if (random() < 0.5) await rm(path)
}

async function listFiles(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}
