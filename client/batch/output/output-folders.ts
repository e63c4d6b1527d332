import { lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { removeAbandoned, replaceFile, temporaryIn } from '../../files/files.ts'
import { FareboxError, type MoneyState } from '../../wire/farebox-error.ts'
import type { OutputFiles } from '../types.ts'

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the disk is read-only',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ENOTDIR: 'a part of its path is a file',
  EEXIST: 'a part of its path is a file',
  ENAMETOOLONG: 'its name is too long',
}

/** A disk that fills up during a batch is noticed after this time. */
const TRUSTED_MS = 2000
/** More than the transcripts of most recordings have. */
const PROBE_BYTES = 64 * 1024

/** Plain files. Checks that transcripts can be written, before they are paid for. */
export class OutputFolders implements OutputFiles {
  readonly #checked = new Map<string, { readonly at: number; readonly writable: Promise<void> }>()

  /** Throws `output_unwritable` unless these files can be written. Creates their folders. */
  async requireWritable(paths: readonly string[]): Promise<void> {
    for (const folder of new Set(paths.map((path) => dirname(path)))) await this.#check(folder)
    for (const path of paths) await requireUsableName(path)
  }

  async write(path: string, text: string): Promise<void> {
    try {
      await writeOutput(path, text)
    } catch (error) {
      // The next one asks the disk again before it pays.
      this.#checked.delete(dirname(path))
      throw error
    }
  }

  async #check(folder: string): Promise<void> {
    const known = this.#checked.get(folder)
    if (known !== undefined && performance.now() - known.at < TRUSTED_MS) return await known.writable
    const writable = known === undefined ? probeFirst(folder) : probe(folder)
    this.#checked.set(folder, { at: performance.now(), writable })
    await writable
  }
}

async function probeFirst(folder: string): Promise<void> {
  await probe(folder)
  await removeAbandoned(folder).catch(() => undefined)
}

/** Writes a file and removes it: permissions alone do not show quotas, full disks and read-only mounts. */
async function probe(folder: string): Promise<void> {
  const path = temporaryIn(folder)
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(path, new Uint8Array(PROBE_BYTES))
  } catch (error) {
    throw outputError(folder, error, 'none')
  } finally {
    await rm(path, { force: true }).catch(() => undefined)
  }
}

async function requireUsableName(path: string): Promise<void> {
  try {
    const found = await lstat(path).catch(ignoreMissing)
    if (found?.isDirectory() === true) throw new Error('it is a folder')
  } catch (error) {
    throw outputError(path, error, 'none')
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
  return undefined
}

/** Writes a transcript that is paid for: it appears under its name only when it is complete. */
async function writeOutput(path: string, text: string): Promise<void> {
  try {
    await replaceFile(path, text).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      // The folder was removed since it was checked.
      await mkdir(dirname(path), { recursive: true })
      await replaceFile(path, text)
    })
  } catch (error) {
    throw outputError(path, error, 'settled')
  }
}

/** Returns the error for a transcript that cannot be written; one that is paid for can be had again. */
function outputError(path: string, cause: unknown, money: MoneyState): FareboxError {
  return new FareboxError({
    code: 'output_unwritable',
    problem: `${path} cannot be written (${whyUnwritable(cause)}).`,
    money,
    advice:
      money === 'none'
        ? 'Make room or choose another folder with --out, then run the command again.'
        : 'Make room or choose another folder with --out, then run the command again within seven days: the service repeats the transcript without another charge.',
    cause,
  })
}

/** Returns the reason that the file system stated, in words. */
export function whyUnwritable(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}
