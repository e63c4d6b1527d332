import { vi } from 'vitest'
import type { CommandRun } from './run-program.ts'

/** Runs a command's `main` in this process, which saves the start of another, and captures its output. */
export async function callCommand(main: () => Promise<number>): Promise<CommandRun> {
  const [output, errors]: [string[], string[]] = [[], []]
  const log = vi.spyOn(console, 'log').mockImplementation((...words) => void output.push(`${words.join(' ')}\n`))
  const error = vi.spyOn(console, 'error').mockImplementation((...words) => void errors.push(`${words.join(' ')}\n`))
  try {
    const exitCode = await main()
    return { exitCode, output: output.join(''), errors: errors.join('') }
  } finally {
    log.mockRestore()
    error.mockRestore()
  }
}
