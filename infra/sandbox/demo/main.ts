import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { printProblem, printStep, printTitle } from '../../terminal.ts'
import { findOuterServices } from '../outer-services.ts'
import { listenForStopSignals } from '../processes/supervise.ts'
import { type Sandbox, startSandbox } from '../sandbox.ts'
import { showBatch } from './batch.ts'
import { showPaidTranscription } from './paid-transcription.ts'

const HELP = `Usage: npm run demo [-- path/to/file.mp3]

Starts everything that farebox needs on this machine, pays for one transcription with the official
x402 client, shows each step, then pays for one call of each other endpoint, transcribes a folder with
the client \`farebox\`, and stops again. Without a file it uses an included sample.

Environment: QUEUE_URL and S3_ENDPOINT, as for npm start.`

const SAMPLE = fileURLToPath(new URL('../samples/last-tram.mp3', import.meta.url))

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ options: { help: { type: 'boolean' } }, allowPositionals: true })
  if (values.help || positionals.length > 1) {
    console.log(HELP)
    return values.help ? 0 : 2
  }
  const path = resolve(positionals[0] ?? SAMPLE)
  const audio = await readFile(path).catch(() => null)
  if (!audio) {
    printProblem(`${path} cannot be read. Pass the path of an MP3 file.`)
    return 2
  }
  return withTemporaryDirectory((directory) => runDemo(directory, { name: basename(path), bytes: audio }))
}

async function runDemo(directory: string, audio: { name: string; bytes: Buffer }): Promise<number> {
  const signals = listenForStopSignals()
  printTitle('Starting farebox')
  const sandbox = await startSandbox({ directory, outerServices: await findOuterServices(), onStep: printStep })
  try {
    return await Promise.race([
      showCalls(sandbox, directory, audio),
      signals.received.then(() => 130),
      crashOf(sandbox),
    ])
  } finally {
    await sandbox.stop()
  }
}

/** Returns the exit code: 1 when the service refuses the recording. */
async function showCalls(
  { info }: Sandbox,
  directory: string,
  audio: { name: string; bytes: Buffer },
): Promise<number> {
  if (!(await showPaidTranscription(info, audio))) return 1
  await showBatch(info, directory)
  console.log('\nDone. `npm start` keeps the same sandbox running.\n')
  return 0
}

async function crashOf(sandbox: Sandbox): Promise<never> {
  const { part, exit } = await sandbox.crashed
  throw new Error(`${part} ended (${exit.signal ?? `exit code ${exit.code}`})`)
}

async function withTemporaryDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-demo-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

main().then(
  (exitCode) => process.exit(exitCode),
  (error: unknown) => {
    printProblem(`The demo failed: ${error instanceof Error ? error.message : String(error)}`)
    process.exit(1)
  },
)
