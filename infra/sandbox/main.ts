import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { highlight, printField, printProblem, printStep, printTitle } from '../terminal.ts'
import { prepareClient } from './client-command.ts'
import { describeEngines, ENGINE_SETTINGS, findEngines, SIMULATED } from './engines.ts'
import { findOuterServices } from './outer-services.ts'
import { listenForStopSignals, type StopReason, untilStop } from './processes/supervise.ts'
import { type Sandbox, startSandbox } from './sandbox.ts'
import { lockDirectory, unlockDirectory } from './state-directory.ts'

const HELP = `Usage: npm start [-- --fresh] [--no-contract] [--simulated]

Runs a complete farebox on this machine until Ctrl-C: PostgreSQL, a local chain with USDC,
vendors, the API, a worker and the operators' console. State is kept in .farebox/ between starts.

  --fresh        delete all earlier payments, results and keys first
  --no-contract  settle each payment in a transaction of its own, without the settlement contract
  --simulated    neither speak nor hear for real, whatever is installed
  --help         show this text

Environment:
  SANDBOX_FILE        where to write sandbox.json (default .farebox/sandbox.json)
  UPSTREAM_DELAY_MS   latency of the simulated vendors in milliseconds (default 0)
  BLOCK_TIME_SECONDS  mine a block at this interval (default: one for each transaction)
${ENGINE_SETTINGS}
  QUEUE_URL           your own Redis for the queue (default: the sandbox's PostgreSQL)
  S3_ENDPOINT         your own S3 store for uploads and media (default: a folder), with S3_ACCESS_KEY_ID,
                      S3_SECRET_ACCESS_KEY and S3_BUCKET (created if it is missing)`

const environmentSchema = z.object({
  SANDBOX_FILE: z.string().min(1).optional(),
  UPSTREAM_DELAY_MS: z.coerce.number().int().min(0).default(0),
  BLOCK_TIME_SECONDS: z.coerce.number().positive().optional(),
})

async function main(): Promise<number> {
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({ options: { fresh: flag, 'no-contract': flag, simulated: flag, help: flag } })
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const environment = environmentSchema.parse(process.env)
  const signals = listenForStopSignals()
  const workspace = await chooseDirectory(environment.SANDBOX_FILE)
  const startedAt = performance.now()
  try {
    printTitle('farebox sandbox')
    const engines = values.simulated ? SIMULATED : await findEngines()
    const sandbox = await startSandbox({
      ...workspace,
      fresh: values.fresh ?? false,
      operator: true,
      settlementContract: !(values['no-contract'] ?? false),
      engines,
      outerServices: await findOuterServices(),
      upstreamDelayMs: environment.UPSTREAM_DELAY_MS,
      blockTimeSeconds: environment.BLOCK_TIME_SECONDS,
      onStep: printStep,
    })
    const line = await prepareClient(sandbox.info, workspace.directory, engines)
    printReady(sandbox, workspace, performance.now() - startedAt, line)
    for (const [kind, description] of Object.entries(describeEngines(engines))) printField(kind, description)
    const reason = await untilStop(sandbox, signals)
    printStop(reason, workspace.directory)
    await sandbox.stop()
    return reason.reason === 'crash' ? 1 : 0
  } catch (error) {
    printProblem(`The sandbox did not start: ${error instanceof Error ? error.message : String(error)}`)
    return 1
  } finally {
    await workspace.release()
  }
}

type Workspace = Awaited<ReturnType<typeof chooseDirectory>>

/** Chooses `.farebox/`, or a temporary directory when another sandbox runs there: concurrent sandboxes share no state. */
async function chooseDirectory(sandboxFile: string | undefined) {
  const directory = resolve('.farebox')
  if (await lockDirectory(directory))
    return {
      directory,
      sandboxFile: resolve(sandboxFile ?? join(directory, 'sandbox.json')),
      release: () => unlockDirectory(directory),
    }
  const temporary = await mkdtemp(join(tmpdir(), 'farebox-sandbox-'))
  console.log(`Another sandbox runs in ${directory}; this one keeps its state in ${temporary} until it stops.`)
  return {
    directory: temporary,
    sandboxFile: resolve(sandboxFile ?? join(temporary, 'sandbox.json')),
    release: () => rm(temporary, { recursive: true, force: true }),
  }
}

function printReady({ info }: Sandbox, workspace: Workspace, milliseconds: number, transcribeLine: string): void {
  printTitle(`Ready in ${(milliseconds / 1000).toFixed(1)} s at ${highlight(info.baseUrl)}`)
  printField('connection', workspace.sandboxFile)
  printField('logs', join(workspace.directory, 'logs'))
  if (info.operator) printField('console', `${info.operator.url} (${info.operator.user}, ${info.operator.password})`)
  printField('payer', `${info.payer.address} (starts with 1,000 USDC and no gas)`)
  printField('stop', 'Ctrl-C')
  console.log(`\nTo transcribe a folder, in another terminal:\n${transcribeLine}\n`)
}

function printStop(stop: StopReason, directory: string): void {
  if (stop.reason === 'crash')
    printProblem(`\n${stop.part} ended (${stop.how}). Stopping everything; see ${join(directory, 'logs')}.`)
  else console.log(`\nStopping (${stop.reason === 'signal' ? stop.signal : stop.reason}).`)
}

process.exitCode = await main()
