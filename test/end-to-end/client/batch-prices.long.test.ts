import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { formatUsdc, parseUsdc } from '../../../client/farebox.ts'
import { createRandom } from '../../resilience/calls/random.ts'
import { type Clip, writeClip } from '../../resilience/client/clips.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type CommandEvent, startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { startTestSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'

const SEED = 20_261_122
const RECORDINGS = 48
const FUNDS_ATOMIC = 1_000_000_000n
const FRAMES = { sampleRate: 8000, bitrate: 8, mode: 'mono' } as const

let sandbox: TestSandbox
let directory: string
let clips: readonly Clip[]
beforeAll(async () => {
  sandbox = await startTestSandbox({ apiEnvironment: WITHOUT_BUDGETS, workerEnvironment: WITHOUT_BUDGETS })
  directory = await mkdtemp(join(tmpdir(), 'farebox-prices-'))
  const random = createRandom(SEED)
  clips = await Promise.all(
    Array.from({ length: RECORDINGS }, (_, index) => {
      // Up to seven minutes: below 148.5 s the minimum charge applies, above it each has another price.
      const durationMs = 500 + Math.floor(random() * 420_000)
      return writeClip(join(directory, 'clips', `${index}.mp3`), {
        script: `Number ${index}.`,
        durationMs,
        frames: FRAMES,
      })
    }),
  )
})
afterAll(async () => {
  await sandbox.stop()
  await rm(directory, { recursive: true, force: true })
})

interface Ran {
  readonly code: number | null
  readonly events: readonly CommandEvent[]
  readonly errors: string
}

async function transcribe(payer: Payer, name: string, ...further: readonly string[]): Promise<Ran> {
  const output = ['--out', join(directory, name), '--format', 'txt', '--concurrency', '64', '--json', '--yes']
  const command = startFareboxCommand(['transcribe', join(directory, 'clips'), ...output, ...further], {
    baseUrl: sandbox.info.baseUrl,
    privateKey: payer.privateKey,
    home: join(directory, `${name}-home`),
  })
  const { code } = await command.ended
  return { code, events: command.events, errors: command.errors() }
}

async function chargesOf(payer: Payer): Promise<readonly bigint[]> {
  const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
  return transfers.filter(({ from }) => from.toLowerCase() === payer.address).map(({ valueAtomic }) => valueAtomic)
}

const sum = (amounts: readonly bigint[]) => amounts.reduce((total, amount) => total + amount, 0n)
const newPayer = () => createPayer(sandbox.info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true })

describe('what a batch costs', () => {
  it('the total of a dry run is charged to the atomic unit, and the dry run itself sends and charges nothing', async () => {
    const payer = await newPayer()
    const dry = await transcribe(payer, 'exact', '--dry-run')
    expect(dry).toMatchObject({ code: 0 })
    const total = totalOf(dry)
    expect(await sandbox.upstreamCalls()).toEqual([])
    expect(await chargesOf(payer)).toEqual([])
    expect(await transcribe(payer, 'exact')).toMatchObject({ code: 0 })
    const charges = await chargesOf(payer)
    expect(charges).toHaveLength(clips.length)
    expect(new Set(charges).size).toBeGreaterThan(clips.length / 4)
    expect(sum(charges) - total).toBe(0n)
  })

  it.each([0.15, 0.5, 0.85])('a budget of %f of the total is not exceeded on chain, and is used', async (share) => {
    const payer = await newPayer()
    const dry = await transcribe(payer, `share-${share}`, '--dry-run')
    const total = totalOf(dry)
    const limit = (total * BigInt(share * 100)) / 100n
    const run = await transcribe(payer, `share-${share}`, '--budget', formatUsdc(limit))
    expect(run).toMatchObject({ code: 3 })
    const charges = await chargesOf(payer)
    expect(sum(charges) <= limit).toBe(true)
    // What is left does not suffice for the most expensive recording.
    expect(limit - sum(charges) < highestPrice(dry)).toBe(true)
    expect(charges.length).toBeGreaterThan(0)
  })
})

function totalOf({ events, errors }: Ran): bigint {
  const totals = events.find(({ event }) => event === 'totals')
  if (totals === undefined) throw new Error(`no totals: ${JSON.stringify(events.at(-1))} ${errors}`)
  return parseUsdc(String(totals['price']))
}

function highestPrice({ events }: Ran): bigint {
  const prices = events.flatMap(({ event, price }) => (event === 'planned' ? [parseUsdc(String(price))] : []))
  return prices.reduce((most, price) => (price > most ? price : most), 0n)
}
