import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A control group whose processes may use only so much memory. */
export interface MemoryGroup {
  readonly directory: string
  /** Returns how many of its processes the kernel has killed. */
  readKills(): Promise<number>
  remove(): Promise<void>
}

/** Version 1 of control groups has one hierarchy for memory, version 2 one for everything. */
const VERSIONS = [
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
  { root: '/sys/fs/cgroup', limit: 'memory.max', events: 'memory.events' },
]

/** Creates a control group with the limit; `null` where this process may not create one. */
export async function createMemoryGroup(limitBytes: number): Promise<MemoryGroup | null> {
  for (const { root, limit, events } of VERSIONS) {
    const directory = join(root, `farebox-bench-${process.pid}`)
    try {
      await readFile(join(root, 'cgroup.procs'))
      await mkdir(directory)
      await writeFile(join(directory, limit), String(limitBytes))
    } catch {
      await rmdir(directory).catch(() => undefined)
      continue
    }
    return {
      directory,
      readKills: async () =>
        Number(/^oom_kill (\d+)$/m.exec(await readFile(join(directory, events), 'utf8'))?.[1] ?? 0),
      remove: () => rmdir(directory),
    }
  }
  return null
}
