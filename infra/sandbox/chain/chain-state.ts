import { readFile, rename } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { waitForPreviousProcess } from '../processes/previous-process.ts'
import { replaceFile } from '../replace-file.ts'
import type { Anvil } from './anvil.ts'
import { callRpc } from './json-rpc.ts'

/** The most recent part of the chain that a crash of the machine may lose. */
const SAVE_INTERVAL_MS = 2_000

/** Saving takes longer with every block (about 0.1 ms each); it may use at most this share of time. */
const SAVE_SHARE = 0.05

/**
 * Returns the path of the file that anvil writes when it shuts down. Anvil does not write atomically, so this is never the
 * only copy: `stateFile` is the latest periodic one, at most a few seconds older.
 */
export function exitStateFile(stateFile: string): string {
  return `${stateFile}.exit`
}

function pidFile(stateFile: string): string {
  return `${stateFile}.pid`
}

/**
 * Finds the newest complete state of an earlier run and makes it `stateFile`.
 *
 * Waits for an earlier anvil that is still writing. An incomplete file is renamed to `*.damaged`, with a line in `log`, and
 * never loaded. Returns false when there is nothing to resume: the chain starts fresh.
 *
 * @throws Error when another sandbox runs on the same file.
 */
export async function recoverChainState(stateFile: string, log?: (line: string) => void): Promise<boolean> {
  const pid = Number(await readFile(pidFile(stateFile), 'utf8').catch(() => '0'))
  if (pid > 0) await waitForPreviousProcess(pid, exitStateFile(stateFile))
  let damaged = false
  for (const candidate of [exitStateFile(stateFile), stateFile]) {
    const content = await readFile(candidate, 'utf8').catch(() => undefined)
    if (content === undefined) continue
    if (isCompleteState(content)) {
      if (candidate !== stateFile) await rename(candidate, stateFile)
      return true
    }
    damaged = true
    await rename(candidate, `${candidate}.damaged`)
    log?.(`The chain state in ${candidate} is incomplete; it was renamed and is not used.`)
  }
  if (damaged) log?.('No complete chain state is left; the chain starts fresh.')
  return false
}

function isCompleteState(content: string): boolean {
  try {
    const state = JSON.parse(content) as Record<string, unknown> | null
    return Array.isArray(state?.['blocks']) && typeof state['accounts'] === 'object'
  } catch {
    return false
  }
}

/**
 * Saves the chain to `stateFile` every few seconds, while anvil runs and blocks are added. Returns a function that waits for a
 * save that is still being written after anvil has ended.
 */
export async function keepChainState(anvil: Anvil, stateFile: string): Promise<() => Promise<void>> {
  await replaceFile(pidFile(stateFile), String(anvil.pid))
  const finished = saveUntilExit(anvil, stateFile)
  return () => finished
}

async function saveUntilExit(anvil: Anvil, stateFile: string): Promise<void> {
  const ended = new AbortController()
  void anvil.exited.then(() => ended.abort())
  let savedBlock = ''
  let intervalMs = SAVE_INTERVAL_MS
  while (!ended.signal.aborted) {
    await delay(intervalMs, undefined, { signal: ended.signal, ref: false }).catch(() => undefined)
    const startedAt = performance.now()
    // A failure means that anvil is shutting down, which ends the loop.
    savedBlock = await saveIfGrown(anvil.rpcUrl, stateFile, savedBlock).catch(() => savedBlock)
    intervalMs = Math.max(SAVE_INTERVAL_MS, (performance.now() - startedAt) / SAVE_SHARE)
  }
}

/** Saves the chain when it has new blocks, and returns the number of the saved block. */
async function saveIfGrown(rpcUrl: string, stateFile: string, savedBlock: string): Promise<string> {
  const block = await callRpc<string>(rpcUrl, 'eth_blockNumber', [])
  if (block === savedBlock) return block
  const dump = await callRpc<string>(rpcUrl, 'anvil_dumpState', [])
  await replaceFile(stateFile, await promisify(gunzip)(Buffer.from(dump.slice(2), 'hex')))
  return block
}
