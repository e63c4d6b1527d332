import { createInterface } from 'node:readline/promises'
import type { Io } from '../io.ts'
import { UsageError } from '../usage-error.ts'

/** Returns whether a person at the terminal agrees. Ctrl-C and Ctrl-D decline. */
export async function ask(io: Io, question: string, signal: AbortSignal): Promise<boolean> {
  // The terminal edits the line itself, so that Ctrl-C stays a signal.
  const dialog = createInterface({ input: io.stdin, output: io.stderr as NodeJS.WriteStream, terminal: false })
  const ended = new AbortController()
  dialog.once('close', () => ended.abort())
  try {
    const answer = await dialog.question(question, { signal: AbortSignal.any([signal, ended.signal]) })
    return /^y(es)?$/i.test(answer.trim())
  } catch {
    io.stderr.write('\n')
    return false
  } finally {
    dialog.close()
  }
}

/** Throws `UsageError` where nobody can be asked. */
export function requireTerminal(io: Io, isInputTaken: boolean): void {
  if (io.stdin.isTTY === true && io.stderr.isTTY === true && !isInputTaken) return
  const reason = isInputTaken ? 'Standard input is taken, so it cannot answer' : 'There is no terminal to ask on'
  throw new UsageError(`${reason} whether to pay. Add --yes, or see the price with --dry-run.`)
}
