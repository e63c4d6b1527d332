import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { env, execPath, pid } from 'node:process'
import { fileURLToPath } from 'node:url'

/**
 * Becomes a worker under the memory limit of the control group in `MEMORY_GROUP`, as in a container: the kernel kills it when it
 * exceeds the limit, and Node bounds its heap by it.
 */
const group = env['MEMORY_GROUP'] ?? ''
if (existsSync(group)) writeFileSync(join(group, 'cgroup.procs'), String(pid))
process.execve?.(execPath, [execPath, fileURLToPath(new URL('../../../workers/main.ts', import.meta.url))], env)
