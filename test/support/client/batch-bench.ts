import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findRecordings } from '../../../client/batch/find/find-recordings.ts'
import { planBatch } from '../../../client/batch/plan/plan-batch.ts'
import { runBatch } from '../../../client/batch/run/run-batch.ts'
import type { BatchEvent, BatchOptions, BatchOutcome, BatchPlan } from '../../../client/batch/types.ts'
import { createFarebox, type FareboxOptions, walletFromPrivateKey } from '../../../client/farebox.ts'
import { generateMp3 } from '../media/mp3-generator.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'

export const OPTIONS: BatchOptions = {
  request: {},
  formats: ['srt'],
  output: {},
  subtitles: {},
  receipts: false,
  concurrency: 8,
  pack: false,
  again: false,
}

export interface BatchResult {
  readonly plan: BatchPlan
  readonly outcome: BatchOutcome
  readonly events: readonly BatchEvent[]
  /** Paths of all requests, in order. */
  readonly requests: readonly string[]
}

export interface BatchFolder {
  /** Where recordings are. */
  readonly folder: string
  /** Where the journal is. */
  readonly home: string
  /** Writes an MP3 of its own for each name and returns the paths. */
  record(names: readonly string[], durationMs?: number): Promise<string[]>
  /** Plans and runs a batch of the folder by a client of its own, as another process would. */
  run(
    options?: Partial<BatchOptions>,
    farebox?: Partial<FareboxOptions>,
    onEvent?: (event: BatchEvent) => void,
  ): Promise<BatchResult>
  /** Returns what the wallet has paid on chain since the folder was created, in atomic units. */
  paid(): Promise<bigint>
  remove(): Promise<void>
}

/** Creates a folder for recordings and one for the journal. */
export async function makeBatchFolder({ info, chain, payer }: SharedSandbox): Promise<BatchFolder> {
  const root = await mkdtemp(join(tmpdir(), 'farebox-batch-'))
  const [folder, home] = [join(root, 'recordings'), join(root, 'home')]
  await mkdir(folder)
  const balance = await chain.usdcBalance(payer.address)
  return {
    folder,
    home,
    record: async (names, durationMs = 1000) =>
      await Promise.all(
        names.map(async (name) => {
          const path = join(folder, name)
          await mkdir(dirname(path), { recursive: true })
          await writeFile(path, generateMp3({ durationMs, seed: `${root} ${name}` }))
          return path
        }),
      ),
    run: async (options = {}, fareboxOptions = {}, onEvent = () => undefined) => {
      const requests: string[] = []
      const events: BatchEvent[] = []
      const listen = (event: BatchEvent) => {
        events.push(event)
        onEvent(event)
      }
      const farebox = await createFarebox({
        wallet: walletFromPrivateKey(info.payer.privateKey),
        baseUrl: info.baseUrl,
        rpcUrl: info.rpcUrl,
        journal: home,
        verify: 'never',
        fetch: async (input, init) => {
          requests.push(new URL(input instanceof Request ? input.url : String(input)).pathname)
          return await fetch(input, init)
        },
        ...fareboxOptions,
      })
      const all = { ...OPTIONS, ...options }
      try {
        const plan = await planBatch(farebox, await findRecordings([folder]), all, listen)
        const outcome = await runBatch(farebox, plan, all, listen)
        return { plan, outcome, events, requests }
      } finally {
        await farebox.close()
      }
    },
    paid: async () => balance - (await chain.usdcBalance(payer.address)),
    remove: () => rm(root, { recursive: true, force: true }),
  }
}
