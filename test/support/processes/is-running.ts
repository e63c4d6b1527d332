import { readFile } from 'node:fs/promises'

/** Whether there is a process with this id. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/**
 * Those of `pids` that still belong to the stack in `directory`, which each of its processes was told of by an argument or the
 * environment. Others may have been given their numbers since; where there is no `/proc` they are taken for the stack's.
 */
export async function survivorsOf(pids: Iterable<number>, directory: string): Promise<readonly number[]> {
  const survivors = await Promise.all(
    [...pids].map(async (pid) => {
      if (!isRunning(pid)) return []
      const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8')
      const told = await Promise.all([read('cmdline'), read('environ')]).catch(() => [directory])
      return isRunning(pid) && told.some((text) => text.includes(directory)) ? [pid] : []
    }),
  )
  return survivors.flat()
}
