import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { printField, printProblem, printStep, printTitle, wrapText } from '../../terminal.ts'
import { describeEngines, ENGINE_SETTINGS, type Engines, findEngines, SIMULATED } from '../engines.ts'
import { findOuterServices } from '../outer-services.ts'
import { createPayingClient } from '../paying-client.ts'
import { listenForStopSignals } from '../processes/supervise.ts'
import { type Sandbox, startSandbox } from '../sandbox.ts'
import { showBatch } from './batch.ts'
import { showOtherCalls } from './other-calls.ts'
import { type Audio, showPaidTranscription } from './paid-transcription.ts'
import { showRoundTrip } from './round-trip.ts'

const HELP = `Usage: npm run demo [-- path/to/file.mp3] [--simulated]

Starts everything that farebox needs on this machine, pays for one transcription with the official
x402 client, shows each step, then pays for one call of each other endpoint, has its own speech transcribed
if something can hear, transcribes a folder with the client \`farebox\`, and stops again. Without a file it
uses an included sample.

  --simulated  neither speak nor hear for real, whatever is installed

Environment (QUEUE_URL and S3_ENDPOINT as for npm start):
${ENGINE_SETTINGS}`

const SAMPLE = fileURLToPath(new URL('../samples/last-tram.mp3', import.meta.url))

async function main(): Promise<number> {
  const flag = { type: 'boolean' } as const
  const { values, positionals } = parseArgs({ options: { simulated: flag, help: flag }, allowPositionals: true })
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
  const engines = values.simulated ? SIMULATED : await findEngines()
  return withTemporaryDirectory((directory) => runDemo(directory, engines, { name: basename(path), bytes: audio }))
}

async function runDemo(directory: string, engines: Engines, audio: Audio): Promise<number> {
  const signals = listenForStopSignals()
  printTitle('What is real')
  for (const [kind, line] of Object.entries(describeEngines(engines))) printField(kind, ...wrapText(line))
  printTitle('Starting farebox')
  const outerServices = await findOuterServices()
  const sandbox = await startSandbox({ directory, engines, outerServices, onStep: printStep })
  try {
    return await Promise.race([
      showCalls(sandbox, directory, { engines, audio }),
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
  { engines, audio }: { engines: Engines; audio: Audio },
): Promise<number> {
  const client = createPayingClient({ ...info, privateKey: info.payer.privateKey })
  if (!(await showPaidTranscription(info, client, audio))) return 1
  const speechUrl = await showOtherCalls(info.baseUrl, client)
  const isHeard = engines.voice !== 'simulated' && engines.hearing !== 'simulated'
  if (isHeard) await showRoundTrip(info.baseUrl, client, speechUrl)
  await showBatch(info, directory, { engines, step: isHeard ? 7 : 6 })
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
