import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BudgetExceeded, TooManyRefused } from '../../../client/budget/budget-exceeded.ts'
import { Budget } from '../../../client/budget/budget.ts'
import type { BudgetAmounts, BudgetLimits } from '../../../client/budget/limits.ts'
import { formatUsdc, parseUsdc } from '../../../client/farebox.ts'
import type { NewEntry } from '../../../client/journal/entries.ts'
import { createMemoryJournal, type Journal } from '../../../client/journal/journal.ts'
import { createRandom } from '../../resilience/calls/random.ts'
import { type Clip, writeClip } from '../../resilience/client/clips.ts'
import { NOON, outcomesOf } from '../../support/client/journaled-calls.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type CommandEvent, startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { startTestSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'

const SEED = 20_261_122
const RECORDINGS = 48
const FUNDS_ATOMIC = 1_000_000_000n
const FRAMES = { sampleRate: 8000, bitrate: 8, mode: 'mono' } as const
interface Ran {
  readonly code: number | null
  readonly events: readonly CommandEvent[]
  readonly errors: string
}
const sum = (amounts: readonly bigint[]) => amounts.reduce((total, amount) => total + amount, 0n)
function totalOf({ events, errors }: Ran): bigint {
  const totals = events.find(({ event }) => event === 'totals')
  if (totals === undefined) throw new Error(`no totals: ${JSON.stringify(events.at(-1))} ${errors}`)
  return parseUsdc(String(totals['price']))
}
function highestPrice({ events }: Ran): bigint {
  const prices = events.flatMap(({ event, price }) => (event === 'planned' ? [parseUsdc(String(price))] : []))
  return prices.reduce((most, price) => (price > most ? price : most), 0n)
}
const GROUPS = ['chat', 'generate_image', 'speak', undefined] as const
const amount = fc.bigInt(0n, 4_000_000n)
const amounts = fc.record({ call: fc.bigInt(0n, 400_000n), session: amount, day: amount }, { requiredKeys: [] })
const call = fc.record({
  maximum: fc.bigInt(1n, 300_000n),
  share: fc.integer({ min: 0, max: 100 }),
  group: fc.constantFrom(...GROUPS),
  process: fc.integer({ min: 0, max: 1 }),
  outcome: fc.constantFrom('charged', 'refused', 'lost', 'replayed'),
})
const scenario = fc.record({
  all: amounts,
  groups: fc.dictionary(fc.constantFrom('chat', 'generate_image', 'speak'), amounts),
  calls: fc.array(call, { minLength: 200, maxLength: 200 }),
})
type Amounts = Partial<Record<'call' | 'session' | 'day', bigint>>
function decimal(limits: Amounts): BudgetAmounts {
  return Object.fromEntries(Object.entries(limits).map(([name, atomic]) => [name, formatUsdc(atomic)]))
}
/** What a service can have taken at most so far, kept apart from the budget's own sums. */
class Exposure {
  readonly #sums = new Map<string, bigint>()
  readonly violations: string[] = []
  readonly #limits: ReadonlyMap<string, bigint>

  constructor(limits: ReadonlyMap<string, bigint>) {
    this.#limits = limits
  }

  requireAtMost(maximum: bigint, limits: readonly (bigint | undefined)[]): void {
    for (const limit of limits)
      if (limit !== undefined && maximum > limit) this.violations.push(`a call of ${maximum} above ${limit}`)
  }

  add(names: readonly string[], change: bigint): void {
    for (const name of names) {
      const sum = (this.#sums.get(name) ?? 0n) + change
      this.#sums.set(name, sum)
      const limit = this.#limits.get(name)
      if (limit !== undefined && sum > limit) this.violations.push(`${name}: ${sum} above ${limit}`)
    }
  }
}
/** Two journals that read each other's entries when they are refreshed, as those in files do. */
function twoProcesses(limits: BudgetLimits) {
  const clock = { now: NOON }
  const written: [NewEntry[], NewEntry[]] = [[], []]
  let held: Promise<unknown> = Promise.resolve()
  return ([0, 1] as const).map((index) => {
    const own = createMemoryJournal(() => clock.now)
    const journal: Journal = {
      ...own,
      append: (...entries) => {
        own.append(...entries)
        written[index].push(...entries)
      },
      refresh: () => {
        const at = new Date(clock.now).toISOString()
        for (const entry of written[1 - index]?.splice(0) ?? []) own.attempts.apply({ ...entry, at }, 'other', false)
      },
      exclusively: async (work) => {
        const result = held.then(work)
        held = result.catch(() => undefined)
        return await result
      },
    }
    return { budget: new Budget(limits, journal, () => clock.now), ...outcomesOf(journal, clock) }
  })
}

describe('what a batch costs', () => {
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
  const newPayer = () => createPayer(sandbox.info.rpcUrl, { usdcAtomic: FUNDS_ATOMIC, approved: true })

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

describe('200 parallel calls in two processes', () => {
  it('never exceed a limit of a call, a session, a day or a group, for any prices, outcomes and orders', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, fc.scheduler(), async ({ all, groups, calls }, scheduler) => {
        const named = [['', all] as const, ...Object.entries(groups)]
        const limits = new Map<string, bigint>()
        for (const [group, own] of named) {
          for (const process of [0, 1])
            if (own.session !== undefined) limits.set(`${group} session ${process}`, own.session)
          if (own.day !== undefined) limits.set(`${group} day`, own.day)
        }
        const exposure = new Exposure(limits)
        const tools = Object.fromEntries(Object.entries(groups).map(([group, own]) => [group, decimal(own)]))
        const processes = twoProcesses({ ...decimal(all), groups: tools })
        const makeCall = async (
          { maximum, share, group, process, outcome: end }: (typeof calls)[number],
          index: number,
        ) => {
          const { budget, sign, answer, refuse } = processes[process] as (typeof processes)[number]
          const paid = { key: `k${index}`, maximum, group }
          await scheduler.schedule(Promise.resolve())
          const refusal = await budget.reserve(paid.key, maximum, group).catch((error: Error) => error)
          if (refusal instanceof BudgetExceeded || refusal instanceof TooManyRefused) return
          if (refusal !== undefined) throw refusal
          exposure.requireAtMost(maximum, [all.call, groups[group ?? '']?.call])
          const names = ['', ...(group === undefined ? [] : [group])].flatMap((each) => [
            `${each} session ${process}`,
            `${each} day`,
          ])
          exposure.add(names, maximum)
          sign(paid)
          await scheduler.schedule(Promise.resolve())
          const charge = (maximum * BigInt(share)) / 100n
          if (end === 'refused') {
            exposure.add(names, -maximum)
            refuse(paid)
          } else if (end !== 'lost') {
            exposure.add(names, charge - maximum)
            answer(paid, charge)
            if (end === 'replayed') answer(paid, charge)
          }
        }
        await scheduler.waitFor(Promise.all(calls.map(makeCall)))
        expect(exposure.violations).toEqual([])
      }),
      { numRuns: 500 },
    )
  })
})
