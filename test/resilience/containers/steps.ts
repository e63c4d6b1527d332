import { listenForStopSignals } from '../../../infra/sandbox/processes/supervise.ts'
import { checkLedgers, noticesMadeUpCaller } from './audit.ts'
import { type Composition, startComposition } from './composition.ts'
import { hideBucket, killContainer, replaceAll, restartAll, restartStore, takeObjectsAway } from './faults.ts'
import { buildImages, buildStandIns } from './images.ts'
import { describeOutcome, type Outcome, underLoad } from './load.ts'
import { expectAlerts, measureMemory, preflight, transcribe, watch } from './operations.ts'
import type { Reconciliation } from './reconciliation.ts'

interface Step {
  readonly name: string
  readonly seconds: number
  /** Why it failed; `null` if it did not. */
  readonly failure: string | null
}

export interface ScenarioReport {
  readonly steps: readonly Step[]
  readonly outcomes: readonly Outcome[]
  /** `null` when a step before it failed. */
  readonly reconciliation: Reconciliation | null
}

interface Run {
  composition: Composition | null
  stop: () => Promise<void>
  reconciliation: Reconciliation | null
  readonly outcomes: Outcome[]
  readonly report: (line: string) => void
}

const LONGEST_FAILURE = 4000
/** Calls before the memory is measured again. */
const CALLS = 100

const system = ({ composition }: Run): Composition => {
  if (composition === null) throw new Error('the system does not run')
  return composition
}
const keep = async (run: Run, happening: Promise<Outcome>) => {
  const outcome = await happening
  run.outcomes.push(outcome)
  run.report(`  ${describeOutcome(outcome)}`)
}
const KILLED = ['api', 'worker', 'settler', 'console', 'proxy', 'objects', 'redis', 'postgres'] as const

const ALL: Readonly<Record<string, (run: Run) => Promise<unknown>>> = {
  build: () => buildImages(),
  'stand-ins': () => buildStandIns(),
  up: async (run) => {
    run.composition = await startComposition(run.report, (stop) => (run.stop = stop))
  },
  watch: (run) => watch(system(run)),
  preflight: async (run) => run.report(await preflight(system(run))),
  load: async (run) => {
    run.report(`  at rest: ${await measureMemory(system(run))}`)
    await keep(
      run,
      underLoad(system(run), 'load', async () => 0, 6, CALLS),
    )
    run.report(`  after ${CALLS} calls: ${await measureMemory(system(run))}`)
  },
  transcribe: async (run) => run.report(await transcribe(system(run))),
  update: (run) => keep(run, replaceAll(system(run))),
  kill: async (run) => {
    for (const service of KILLED) await keep(run, killContainer(system(run), service))
  },
  stores: async (run) => {
    for (const store of ['postgres', 'redis'] as const) await keep(run, restartStore(system(run), store))
  },
  restart: (run) => keep(run, restartAll(system(run))),
  objects: (run) => keep(run, takeObjectsAway(system(run))),
  bucket: (run) => keep(run, hideBucket(system(run), run.report)),
  alerts: async (run) => run.report(await expectAlerts(system(run))),
}
const AUDIT = 'reconcile'
/** The names of the steps, in their order. */
export const STEPS = [...Object.keys(ALL), AUDIT]

/** Runs the steps, reconciles what was done, and removes everything. */
export async function runScenario(options: {
  readonly until: string | undefined
  readonly keep: boolean
  readonly report: (line: string) => void
}): Promise<ScenarioReport> {
  const { until, report } = options
  if (until !== undefined && !STEPS.includes(until)) throw new Error(`no step ${until}: ${STEPS.join(', ')}`)
  const run: Run = { composition: null, stop: async () => undefined, reconciliation: null, outcomes: [], report }
  const signals = listenForStopSignals()
  let isInterrupted = false
  const interrupted = signals.received.then(() => {
    isInterrupted = true
    throw new Error('interrupted')
  })
  interrupted.catch(() => undefined)
  const steps: Step[] = []
  const step = async (name: string, work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    report(name)
    const failure = await Promise.race([work(), interrupted]).then(
      () => null,
      // The end of what a command wrote says why it failed.
      (error: unknown) => String(error).slice(-LONGEST_FAILURE),
    )
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1))
    steps.push({ name, seconds, failure })
    report(`${name}: ${seconds} s${failure === null ? '' : `, FAILED: ${failure}`}`)
    // What comes later is tried as well, unless nothing runs.
    if (failure !== null && (run.composition === null || isInterrupted)) throw new Error(failure)
  }
  try {
    for (const [name, work] of Object.entries(ALL)) {
      await step(name, () => work(run))
      if (name === until) break
    }
    if (run.composition !== null)
      await step(AUDIT, async () => {
        const { ledgers, reconciliation, printed } = await checkLedgers(system(run))
        report(printed)
        if (!noticesMadeUpCaller(ledgers)) throw new Error('the reconciliation does not notice a made-up caller')
        run.reconciliation = reconciliation
      })
  } catch (error) {
    report(`ended: ${String(error)}`)
  } finally {
    if (options.keep) await signals.received
    await run.stop()
  }
  return { steps, outcomes: run.outcomes, reconciliation: run.reconciliation }
}
