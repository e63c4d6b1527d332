import { createInterface } from 'node:readline/promises'
import { setTimeout } from 'node:timers/promises'
import { UsageError } from '../exit-codes.ts'
import type { Io } from '../io.ts'

/** What is in the terminal's buffer arrives at once. */
const TYPED_AHEAD_MS = 50

/** Returns whether a person at the terminal agrees. Ctrl-C and Ctrl-D decline. */
export async function ask(io: Io, question: string, signal: AbortSignal): Promise<boolean> {
  if (io.stdin.isTTY === true) await dropTypedAhead(io.stdin)
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

const drop = () => undefined

/** What was typed before the question was shown is no answer to it. */
async function dropTypedAhead(stdin: Io['stdin']): Promise<void> {
  stdin.on('data', drop).resume()
  await setTimeout(TYPED_AHEAD_MS)
  stdin.off('data', drop).pause()
}

/** Throws `UsageError` where nobody can be asked. */
export function requireTerminal(io: Io, isInputTaken: boolean): void {
  if (io.stdin.isTTY === true && io.stderr.isTTY === true && !isInputTaken) return
  const reason = isInputTaken ? 'Standard input is taken, so it cannot answer' : 'There is no terminal to ask on'
  throw new UsageError(`${reason} whether to pay. Add --yes, or see the price with --dry-run.`)
}
