import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runProgram } from '../../../client/command/program.ts'
import { createPayer, type Payer, type PayerOptions } from '../payer/payer.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'
import { type ScriptedIo, scriptedIo } from './scripted-io.ts'

type IoOptions = Parameters<typeof scriptedIo>[0]

export interface CommandResult {
  readonly code: number
  readonly out: string
  readonly err: string
  /** The lines of stdout, as JSON. */
  readonly lines: () => Record<string, unknown>[]
}

/** A wallet that runs commands in this process, with a folder of its own. */
export interface CommandWallet {
  readonly payer: Payer
  /** For files of the commands. */
  readonly folder: string
  readonly keyFile: string
  readonly home: string
  readonly run: (args: readonly string[], options?: IoOptions) => Promise<CommandResult>
  /** Starts a command, so that it can be interrupted. */
  start(
    args: readonly string[],
    options?: IoOptions,
  ): { readonly io: ScriptedIo; readonly done: Promise<CommandResult> }
  /** Returns what the wallet has paid since it was created, in atomic USDC. */
  paid(): Promise<bigint>
  remove(): Promise<void>
}

const FUNDS = 10_000_000n

/** Creates a wallet with 10 USDC and its journal. */
export async function createCommandWallet(
  { info, chain }: SharedSandbox,
  { usdcAtomic = FUNDS, approved = true }: PayerOptions = {},
): Promise<CommandWallet> {
  const payer = await createPayer(info.rpcUrl, { usdcAtomic, approved })
  const folder = await mkdtemp(join(tmpdir(), 'farebox-commands-'))
  const [keyFile, home] = [join(folder, '.key'), join(folder, '.home')]
  await writeFile(keyFile, payer.privateKey, { mode: 0o600 })
  const settings = ['--url', info.baseUrl, '--rpc-url', info.rpcUrl, '--key-file', keyFile, '--home', home]
  const start = (args: readonly string[], options: IoOptions = {}) => {
    const io = scriptedIo(options)
    // What the test names wins over the settings.
    const done = runProgram([...settings, ...args], io).then((code) => resultOf(code, io))
    return { io, done }
  }
  return {
    payer,
    folder,
    keyFile,
    home,
    run: async (args, options) => await start(args, options).done,
    start,
    paid: async () => usdcAtomic - (await chain.usdcBalance(payer.address)),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

function resultOf(code: number, { written: { out, err } }: ScriptedIo): CommandResult {
  const lines = () => {
    const texts = out.split('\n').filter((line) => line !== '')
    return texts.map((line) => JSON.parse(line) as Record<string, unknown>)
  }
  return { code, out, err, lines }
}
