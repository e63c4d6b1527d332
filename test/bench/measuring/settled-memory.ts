import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

const PRELOADED = fileURLToPath(new URL('./answer-memory.ts', import.meta.url))
const PATIENCE_MS = 30_000

const memorySchema = z.object({ answers: z.number(), rss: z.number(), heapUsed: z.number(), external: z.number() })

/** Of a process that has just collected its garbage, in bytes. */
export type SettledMemory = z.infer<typeof memorySchema>

/** The settings with which one of our processes can be asked by `readSettledMemory`. */
export function memoryEnvironment(directory: string): Record<string, string> {
  return { NODE_OPTIONS: `--import=${PRELOADED}`, MEMORY_DIRECTORY: directory }
}

/** Lets the process collect its garbage, and gives what is left. `earlier` is what the last call for it gave. */
export async function readSettledMemory(
  directory: string,
  pid: number,
  earlier?: SettledMemory,
): Promise<SettledMemory> {
  process.kill(pid, 'SIGUSR2')
  for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await delay(20)) {
    const text = await readFile(join(directory, `${pid}.json`), 'utf8').catch(() => '')
    // Half-written at first, or not yet.
    if (!text.endsWith('}')) continue
    const memory = memorySchema.parse(JSON.parse(text))
    if (memory.answers > (earlier?.answers ?? 0)) return memory
  }
  throw new Error(`process ${pid} does not tell its memory`)
}
