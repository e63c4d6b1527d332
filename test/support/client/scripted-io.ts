import { Readable } from 'node:stream'
import type { EndSignal, InputStream, Io, OutputStream } from '../../../client/command/io.ts'
import { runProgram } from '../../../client/command/program.ts'

/** Streams, environment and signals that a test controls. */
export interface ScriptedIo extends Io {
  readonly written: { out: string; err: string }
  readonly exits: number[]
  signal(name: EndSignal): void
}

interface ScriptedIoOptions {
  readonly input?: string
  readonly environment?: Readonly<Record<string, string>>
  /** Makes all three streams terminals. */
  readonly isTerminal?: boolean
}

export function scriptedIo({ input = '', environment = {}, isTerminal = false }: ScriptedIoOptions = {}): ScriptedIo {
  const written = { out: '', err: '' }
  const exits: number[] = []
  const listeners = new Set<(signal: EndSignal) => void>()
  const terminal = new Readable({ read: () => undefined })
  const stream = (name: 'out' | 'err'): OutputStream => ({
    write(chunk, taken) {
      // A person types when there is a question.
      if (isTerminal && name === 'err' && /\? (\[.*\] )?$/.test(chunk.toString())) {
        terminal.push(input)
        terminal.push(null)
      }
      written[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
      taken?.()
      return true
    },
    isTTY: isTerminal,
    hasColors: () => false,
  })
  return {
    stdin: Object.assign(isTerminal ? terminal : Readable.from([input]), { isTTY: isTerminal }) as InputStream,
    stdout: stream('out'),
    stderr: stream('err'),
    environment,
    onEndRequest(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    exit: (code) => exits.push(code),
    written,
    exits,
    signal: (name) => listeners.forEach((listener) => listener(name)),
  }
}

/** Runs the program in this process and returns what it wrote and ended with. */
export async function runScripted(args: readonly string[], options: ScriptedIoOptions = {}) {
  const io = scriptedIo(options)
  const code = await runProgram(args, io)
  return { code, ...io.written }
}
