import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createPayer, type Payer } from '../payer/payer.ts'
import { type CommandRun, runCommand } from '../processes/run-program.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'
import { type McpProcess, type McpProcessOptions, startMcpProcess } from './mcp-process.ts'
import { type Moved, outflowsOf } from './money-checks.ts'
import { type PaymentTap, startPaymentTap } from './payment-tap.ts'

/** A wallet, its folders and its limits, and the servers that an agent runs on them. */
export interface AttackBench {
  readonly payer: Payer
  readonly tap: PaymentTap
  /** Where journal and limits are. */
  readonly home: string
  /** What the tools may read and write. */
  readonly folder: string
  readonly keyFile: string
  readonly environment: Readonly<Record<string, string>>
  /** Runs `farebox` as a person does. */
  run(...args: readonly string[]): Promise<CommandRun>
  /** Sets limits as a person does. */
  setLimits(...options: readonly string[]): Promise<void>
  /** Starts `farebox mcp` with the folder. */
  start(options?: Partial<McpProcessOptions>): McpProcess
  /** Returns everything that was signed, and that left the wallet. */
  moved(): Promise<Moved>
  remove(): Promise<void>
}

/** Makes a bench with 10 USDC, which Permit2 may take, in front of a sandbox. */
export async function makeAttackBench(sandbox: SharedSandbox): Promise<AttackBench> {
  const { info } = sandbox
  const payer = await createPayer(info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  const tap = await startPaymentTap(info.baseUrl)
  const root = await mkdtemp(join(tmpdir(), 'farebox-attack-'))
  const [home, folder, keyFile] = [join(root, 'home'), join(root, 'audio'), join(root, 'key')]
  await mkdir(folder)
  await writeFile(keyFile, payer.privateKey, { mode: 0o600 })
  const environment = {
    FAREBOX_URL: tap.url,
    FAREBOX_RPC_URL: info.rpcUrl,
    FAREBOX_KEY_FILE: keyFile,
    FAREBOX_HOME: home,
  }
  const started: McpProcess[] = []
  const run = (...args: readonly string[]) => runCommand('client/command/main.ts', args, environment)
  return {
    payer,
    tap,
    home,
    folder,
    keyFile,
    environment,
    run,
    setLimits: async (...options) => {
      const { exitCode, errors } = await run('limits', 'set', ...options, '--yes')
      if (exitCode !== 0) throw new Error(`limits set ${options.join(' ')}: ${exitCode} ${errors}`)
    },
    start: ({ args = [], ...options } = {}) => {
      const server = startMcpProcess({ environment, args: [folder, ...args], ...options })
      started.push(server)
      return server
    },
    moved: async () => ({ payments: tap.payments, outflows: await outflowsOf(sandbox, payer.address) }),
    remove: async () => {
      for (const server of started) server.kill()
      await Promise.all(started.map(({ ended }) => ended))
      await tap.stop()
      await rm(root, { recursive: true, force: true })
    },
  }
}
