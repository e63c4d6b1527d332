import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

const PRELOAD = fileURLToPath(new URL('./answer-memory.ts', import.meta.url))
const PATIENCE_MS = 30_000

const memorySchema = z.object({ answers: z.number(), rss: z.number(), heapUsed: z.number(), external: z.number() })

/** Memory of a process after a garbage collection, in bytes. */
export type SettledMemory = z.infer<typeof memorySchema>

/** Returns the settings that let `readSettledMemory` read a process's memory. */
export function memoryEnvironment(directory: string): Record<string, string> {
  return { NODE_OPTIONS: `--import=${PRELOAD}`, MEMORY_DIRECTORY: directory }
}

/**
 * Makes the process collect its garbage and returns its remaining memory. `earlier` is the previous result for the
 * process.
 */
export async function readSettledMemory(
  directory: string,
  pid: number,
  earlier?: SettledMemory,
): Promise<SettledMemory> {
  process.kill(pid, 'SIGUSR2')
  for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await delay(20)) {
    const text = await readFile(join(directory, `${pid}.json`), 'utf8').catch(() => '')
    // The file is missing or incomplete.
    if (!text.endsWith('}')) continue
    const memory = memorySchema.parse(JSON.parse(text))
    if (memory.answers > (earlier?.answers ?? 0)) return memory
  }
  throw new Error(`process ${pid} did not report its memory`)
}
