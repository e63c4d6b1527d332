import { constants, existsSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, realpath } from 'node:fs/promises'
import { join } from 'node:path'

/** Where Linux names the files of a process, so that a name within an open folder can be used whatever its path is now. */
const OWN_FILES = '/proc/self/fd'
const HAS_OWN_FILES = process.platform === 'linux' && existsSync(OWN_FILES)

// Windows knows neither.
const {
  O_RDONLY,
  O_DIRECTORY = 0,
  O_NOFOLLOW = 0,
  O_NONBLOCK = 0,
} = constants as Partial<typeof constants> & {
  O_RDONLY: number
}

/**
 * A folder that is open. What is opened in it is certainly in it: on Linux even if its path is changed meanwhile, elsewhere
 * because the path is compared after each opening.
 */
export class OpenFolder {
  /** Real path, when it was opened. */
  readonly path: string
  readonly #handle: FileHandle

  private constructor(path: string, handle: FileHandle) {
    this.path = path
    this.#handle = handle
  }

  /** Opens the folder that some names lead to from a real path, one by one. Throws for a link among them. */
  static async open(path: string, names: readonly string[], { creates = false } = {}): Promise<OpenFolder> {
    let folder = new OpenFolder(path, await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
    for (const name of names) {
      const parent = folder
      try {
        if (creates) await mkdir(parent.at(name)).catch(ignoreExisting)
        folder = await parent.folder(name)
      } finally {
        await parent.close()
      }
    }
    return folder
  }

  async folder(name: string): Promise<OpenFolder> {
    return new OpenFolder(join(this.path, name), await this.#open(name, O_DIRECTORY))
  }

  /** Opens a file for reading; a pipe is opened without waiting for its writer. */
  async file(name: string): Promise<FileHandle> {
    return await this.#open(name, O_NONBLOCK)
  }

  /** Returns a path of a name in the folder. A link at that name is not safe to follow. */
  at(name: string): string {
    return HAS_OWN_FILES ? `${OWN_FILES}/${this.#handle.fd}/${name}` : join(this.path, name)
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  async #open(name: string, flags: number): Promise<FileHandle> {
    const handle = await open(this.at(name), O_RDONLY | O_NOFOLLOW | flags)
    if (HAS_OWN_FILES) return handle
    try {
      await requireAt(join(this.path, name), handle)
      return handle
    } catch (error) {
      await handle.close()
      throw error
    }
  }
}

/** Throws unless a path without links leads to what is open. */
async function requireAt(path: string, handle: FileHandle): Promise<void> {
  const isReal = (await realpath(path)) === path
  const [opened, there] = await Promise.all([handle.stat({ bigint: true }), lstat(path, { bigint: true })])
  if (isReal && opened.ino === there.ino && opened.dev === there.dev) return
  throw Object.assign(new Error('a link is on the path'), { code: 'ELOOP' })
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}
