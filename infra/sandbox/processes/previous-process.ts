import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { platform } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

/**
 * Reads a running process's command line; undefined when no such process runs.
 *
 * Small Linux images have no `ps`, macOS has no `/proc`.
 */
export async function readCommandLine(pid: number): Promise<string | undefined> {
  if (platform === 'linux') {
    const raw = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    // A zombie has an empty command line and no longer runs.
    return raw === '' ? undefined : raw.replaceAll('\0', ' ')
  }
  const listed = await promisify(execFile)('ps', ['-ww', '-p', String(pid), '-o', 'args=']).catch(() => undefined)
  return listed?.stdout.trim() || undefined
}

/**
 * Waits until a process of an earlier run has released its files; after a crash its guard needs a moment to end it.
 *
 * A process counts as the earlier one only when its command line contains `marker`, because process ids are reused.
 *
 * @throws Error when it still runs after `timeoutMs` (default 6,000, as a guard ends its orphan after one second): the files
 *   belong to another sandbox.
 */
export async function waitForPreviousProcess(pid: number, marker: string, timeoutMs = 6_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const commandLine = await readCommandLine(pid)
    if (commandLine === undefined || !commandLine.includes(marker)) return
    if (Date.now() > deadline) throw new Error(`${marker} is in use by process ${pid}; stop that sandbox first`)
    await delay(20)
  }
}
