import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findRecordings } from '../../client/batch/find/find-recordings.ts'
import { planBatch } from '../../client/batch/plan/plan-batch.ts'
import { runBatch } from '../../client/batch/run/run-batch.ts'
import type { BatchOptions } from '../../client/batch/types.ts'
import { createFarebox, formatUsdc, walletFromPrivateKey } from '../../client/farebox.ts'
import { type PaidFate, scriptTranscriptions } from '../support/http/scripted-transcriptions.ts'
import { generatedDurationMs, generateMp3 } from '../support/media/mp3-generator.ts'

const RUNS = 500
/** Scenarios that run at the same time, since those with failures wait. */
const AT_ONCE = 25
const CONCURRENCY = 64
/** 1 kB a second. */
const SMALLEST = { sampleRate: 8000, bitrate: 8, mode: 'mono' } as const
/** More than are under way at once. */
const RECORDINGS = 96
const LONGEST_MS = 30_000
interface PooledRecording {
  readonly path: string
  readonly sha256: string
  readonly bytes: number
  readonly durationMs: number
}
let directory: string
let pool: readonly PooledRecording[]
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-budget-'))
  pool = await Promise.all(
    Array.from({ length: RECORDINGS }, async (_, index) => {
      // From 0.3 to 30 s, so that prices are far apart.
      const options = {
        ...SMALLEST,
        durationMs: Math.round(LONGEST_MS ** ((index + 1) / RECORDINGS)) + 300,
        seed: `${index}`,
      }
      const audio = generateMp3(options)
      const path = join(directory, `${index}.mp3`)
      await writeFile(path, audio)
      const sha256 = createHash('sha256').update(audio).digest('hex')
      return { path, sha256, bytes: audio.length, durationMs: generatedDurationMs(options) }
    }),
  )
})
afterAll(() => rm(directory, { recursive: true, force: true }))
const FATES: readonly PaidFate[] = ['answered', 'overloaded', 'failed', 'lost', 'answer_lost']
const scenario = fc.record({
  recordings: fc.uniqueArray(fc.nat(RECORDINGS - 1), { minLength: 1, maxLength: RECORDINGS, size: 'max' }),
  /** Millionths of a dollar. */
  pricePerHour: fc.integer({ min: 1, max: 50_000_000 }),
  minimum: fc.integer({ min: 1, max: 5000 }),
  /** In percent of what the batch costs, less an atomic unit or none. */
  budgetShare: fc.oneof(fc.constant(100), fc.integer({ min: 0, max: 110 })),
  less: fc.constantFrom(0n, 1n),
  limit: fc.constantFrom('session', 'day'),
  /** What happens to signed requests, in turn; most scenarios have some that succeed. */
  fates: fc.oneof(
    fc.constant<readonly PaidFate[]>(['answered']),
    fc.array(fc.constantFrom<PaidFate[]>('answered', 'answered', ...FATES), { minLength: 2, maxLength: 40 }),
  ),
  /** How many turns of the event loop each answer takes. */
  pauses: fc.array(fc.nat(6), { minLength: 1, maxLength: 20 }),
  patienceMs: fc.constantFrom(0, 0, 3000),
})
type Scenario = typeof scenario extends fc.Arbitrary<infer Value> ? Value : never
const usd = (millionths: number) => (millionths / 1e6).toFixed(6)
async function runScenario(drawn: Scenario) {
  const chosen = drawn.recordings.map((index) => pool[index] as PooledRecording)
  let pauses = 0
  const service = await scriptTranscriptions({
    pricePerAudioHourUsd: usd(drawn.pricePerHour),
    minimumChargeUsd: usd(drawn.minimum),
    recordings: new Map(chosen.map((recording) => [recording.sha256, recording])),
    fateOf: (request) => drawn.fates[request % drawn.fates.length] ?? 'answered',
    pause: async () => {
      for (let turns = drawn.pauses[pauses++ % drawn.pauses.length] ?? 0; turns > 0; turns--) await turn()
    },
  })
  const wallet = walletFromPrivateKey(generatePrivateKey())
  const common = {
    wallet,
    baseUrl: 'http://localhost:4020',
    journal: 'memory',
    fetch: service.fetch,
    verify: 'never',
  } as const
  const options: BatchOptions = {
    request: {},
    formats: ['txt'],
    output: { print: () => undefined },
    subtitles: {},
    receipts: false,
    concurrency: CONCURRENCY,
    pack: false,
    again: false,
    patienceMs: drawn.patienceMs,
  }
  const sources = await findRecordings(chosen.map(({ path }) => path))
  const planner = await createFarebox(common)
  const { price } = (await planBatch(planner, sources, options)).totals
  const share = (price * BigInt(drawn.budgetShare)) / 100n
  const limit = share > drawn.less ? share - drawn.less : 0n
  const farebox = await createFarebox({ ...common, budget: { [drawn.limit]: formatUsdc(limit) } })
  const plan = await planBatch(farebox, sources, options)
  const outcome = await runBatch(farebox, plan, options)
  return { service, plan, outcome, limit, left: farebox.budgetLeft()[drawn.limit] }
}
type Result = Awaited<ReturnType<typeof runScenario>>
/** Without failures, all that was signed is charged, and only what no longer fits is left out. */
function unusedBudget({ service, plan, outcome, limit, left }: Result): readonly string[] {
  const highest = plan.files.reduce((most, { price }) => (price > most ? price : most), 0n)
  const isComplete = outcome.finished === plan.files.length
  return [
    ...(outcome.charged === service.charged ? [] : [`${outcome.charged} of ${service.charged} charged are counted`]),
    ...(left === limit - service.charged ? [] : [`${left} are left of ${limit} after ${service.charged}`]),
    ...(isComplete || outcome.stoppedBy === 'budget' ? [] : [`it was stopped by ${outcome.stoppedBy}`]),
    ...(isComplete || limit - service.charged < highest ? [] : [`only ${service.charged} of ${limit} are used`]),
    ...(!isComplete || service.charged === plan.totals.price ? [] : [`it cost ${service.charged}, not its price`]),
  ]
}
it(`a batch at a concurrency of ${CONCURRENCY} never exceeds its budget, for any prices and failures, and uses it`, async () => {
  let [mostAtOnce, stopped, completed] = [0, 0, 0]
  const check = async (drawn: Scenario) => {
    const result = await runScenario(drawn)
    const { service, plan, outcome, limit } = result
    mostAtOnce = Math.max(mostAtOnce, service.mostAtOnce)
    if (outcome.stoppedBy === 'budget') stopped += 1
    if (outcome.finished === plan.files.length) completed += 1
    return [
      ...(service.highestExposure <= limit ? [] : [`${service.highestExposure} could be charged of ${limit}`]),
      ...(outcome.charged <= service.charged ? [] : [`${outcome.charged} are counted of ${service.charged} charged`]),
      ...(drawn.fates.length === 1 ? unusedBudget(result) : []),
    ].map((problem) => `${problem} in ${fc.stringify(drawn)}`)
  }
  const scenarios = fc.array(scenario, { minLength: AT_ONCE, maxLength: AT_ONCE })
  await fc.assert(
    fc.asyncProperty(scenarios, async (all) => {
      const problems = (await Promise.all(all.map(check))).flat()
      expect(problems).toEqual([])
    }),
    // Shrinking would run hundreds of batches for little: the problems name their scenario.
    { numRuns: RUNS / AT_ONCE, endOnFailure: true, includeErrorInReport: true },
  )
  // The scenarios reached what they are about.
  expect(mostAtOnce).toBeGreaterThan(CONCURRENCY / 2)
  expect(Math.min(stopped, completed)).toBeGreaterThan(RUNS / 20)
})
