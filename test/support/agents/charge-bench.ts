import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './attack-bench.ts'
import type { McpProcess, McpProcessOptions } from './mcp-process.ts'
import { markedRecording } from './scripted-vendors.ts'

/** How often a wallet was charged: on chain, and as the service has it. */
export interface Charges {
  readonly onChain: number
  readonly jobs: number
}

/** The bench of the running test, with limits that no test reaches and `recording.mp3` in its folder. */
export interface ChargeBench {
  readonly sandbox: SharedSandbox
  readonly bench: AttackBench
  /** Starts a server and greets it. */
  start(options?: Partial<McpProcessOptions>): Promise<McpProcess>
  /** Writes a recording of its own into the folder. */
  record(name: string): Promise<void>
  charges(): Promise<Charges>
}

/** Registers hooks that make a wallet, its folders and its limits for each test of the calling file. */
export function useChargeBench(): ChargeBench {
  let sandbox: SharedSandbox
  let bench: AttackBench
  const record = (name: string) => writeFile(join(bench.folder, name), markedRecording(crypto.randomUUID()))
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())
  beforeEach(async () => {
    bench = await makeAttackBench(sandbox)
    await bench.setLimits('--call', '0.1', '--session', '1', '--day', '1', '--confirm-above', '0.1')
    await record('recording.mp3')
  })
  afterEach(async () => {
    await sandbox.setFaults([])
    await bench.remove()
  })
  return {
    get sandbox() {
      return sandbox
    },
    get bench() {
      return bench
    },
    start: async (options) => {
      const server = bench.start(options)
      await server.initialize()
      return server
    },
    record,
    charges: async () => {
      const { outflows } = await bench.moved()
      const jobs = await sandbox.sql("SELECT 1 FROM jobs WHERE payer = $1 AND state = 'completed'", [
        bench.payer.address,
      ])
      return { onChain: outflows.filter(({ kind }) => kind === 'transfer').length, jobs: jobs.length }
    },
  }
}
