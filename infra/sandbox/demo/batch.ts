import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { highlight, printField, printTitle } from '../../terminal.ts'
import { clientEnvironment, copySamples, transcribeOptions } from '../client-command.ts'
import type { Engines } from '../engines.ts'
import type { SandboxInfo } from '../sandbox.ts'
import { CLIENT_STATE } from '../state-directory.ts'

/** The sources of the command `farebox`. */
const COMMAND = fileURLToPath(new URL('../../../client/command/main.ts', import.meta.url))
const RECORDINGS = 'recordings'
const SHOWN_FILE = 'last-tram.srt'
/** Two cues. */
const SHOWN_LINES = 8

/** Transcribes a folder of recordings to subtitles with the client's command, in `directory`. */
export async function showBatch(
  info: SandboxInfo,
  directory: string,
  { engines, step }: { engines: Engines; step: number },
): Promise<void> {
  printTitle(`${step}  Transcribe a folder with the client`)
  const folder = join(directory, RECORDINGS)
  await copySamples(folder, engines)
  const args = ['transcribe', RECORDINGS, '--format', 'srt', '--yes', ...transcribeOptions(engines)]
  printField('command', highlight(`farebox ${args.join(' ')}`))
  await runClient(args, directory, clientEnvironment(info, join(directory, CLIENT_STATE)))
  const subtitles = await readFile(join(folder, SHOWN_FILE), 'utf8')
  printField('subtitles', ...subtitles.split('\n').slice(0, SHOWN_LINES))
}

/** Runs the command as a user does and prints what it reports. */
async function runClient(args: readonly string[], cwd: string, settings: Record<string, string>): Promise<void> {
  const child = spawn(process.execPath, [COMMAND, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...settings },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  const closed = once(child, 'close')
  let label = 'reports'
  for await (const line of createInterface({ input: child.stderr })) {
    printField(label, line)
    label = ''
  }
  const [code] = (await closed) as [number | null]
  if (code !== 0) throw new Error(`farebox transcribe ended with exit code ${code}`)
}
