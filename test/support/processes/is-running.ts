import { readFile } from 'node:fs/promises'

/** Returns whether a process with this id exists. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/**
 * Returns those of `pids` that still belong to the stack in `directory`, which each of its processes names in an
 * argument or its environment. Other processes may have reused their ids; without `/proc` these are counted as the
 * stack's. A thread of the kernel may have, too: it has no environment to read (ESRCH).
 */
export async function survivorsOf(pids: Iterable<number>, directory: string): Promise<readonly number[]> {
  const survivors = await Promise.all(
    [...pids].map(async (pid) => {
      if (!isRunning(pid)) return []
      const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8')
      const texts = await Promise.all([read('cmdline'), read('environ')]).catch((error: NodeJS.ErrnoException) =>
        error.code === 'ESRCH' ? [] : [directory],
      )
      return isRunning(pid) && texts.some((text) => text.includes(directory)) ? [pid] : []
    }),
  )
  return survivors.flat()
}
