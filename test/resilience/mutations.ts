import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { PATIENCE_MS } from '../support/patience.ts'
import type { Verdict } from './mutations/bench.ts'
import { type Mutation, mutations } from './mutations/mutation-list.ts'
import type { ScenarioName } from './mutations/scenarios.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** What runs; everything else of the repository is not needed. */
const COPIED = ['api', 'workers', 'shared', 'infra', 'test', 'package.json', 'tsconfig.json']
/** For a service with all its defences, which never gets stuck. */
const SOUND_PATIENCE_MS = 5 * PATIENCE_MS
/** A mutated service may get stuck. Nothing of a scenario takes it longer than the sound one took for all, with a margin. */
const MUTATED_PATIENCE = 2
const LEAST_MUTATED_PATIENCE_MS = 10_000
/** A scenario waits for several things, and ends by itself; this is for a runner that does not. */
const LONGEST_RUN_MS = 4 * SOUND_PATIENCE_MS

export interface MutationOutcome {
  readonly mutation: Mutation
  /** Of the same scenario with all defences in place. */
  readonly sound: Verdict
  readonly mutated: Verdict
  readonly isProven: boolean
}

/**
 * Takes one defence away at a time and asks the checker: it must find nothing with all of them, and report the named
 * invariant without. `onOutcome` hears of each as it is known.
 */
export async function runMutations(
  chosen: readonly Mutation[],
  onOutcome: (outcome: MutationOutcome) => void = () => undefined,
): Promise<readonly MutationOutcome[]> {
  const sound = new Map<ScenarioName, TimedVerdict>()
  const outcomes: MutationOutcome[] = []
  for (const mutation of chosen) {
    const { scenario, reports, statements = [] } = mutation
    const without = sound.get(scenario) ?? (await runScenario(ROOT, scenario, SOUND_PATIENCE_MS))
    sound.set(scenario, without)
    const patienceMs = Math.max(LEAST_MUTATED_PATIENCE_MS, MUTATED_PATIENCE * without.tookMs)
    const mutated = await inMutatedCopy(mutation, (root) => runScenario(root, scenario, patienceMs, statements))
    const isSound = without.verdict.violations.length === 0 && without.verdict.released > 0
    const isProven = isSound && mutated.verdict.violations.some(({ invariant }) => invariant === reports)
    const outcome = { mutation, sound: without.verdict, mutated: mutated.verdict, isProven }
    outcomes.push(outcome)
    onOutcome(outcome)
  }
  return outcomes
}

async function inMutatedCopy<T>({ replacements = [] }: Mutation, run: (root: string) => Promise<T>): Promise<T> {
  if (replacements.length === 0) return await run(ROOT)
  const root = await mkdtemp(join(tmpdir(), 'farebox-mutation-'))
  try {
    for (const name of COPIED) await cp(join(ROOT, name), join(root, name), { recursive: true })
    await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'))
    for (const { file, from, to } of replacements) {
      const path = join(root, file)
      const [before, ...after] = (await readFile(path, 'utf8')).split(from)
      if (after.length !== 1) throw new Error(`${file} holds ${after.length} times: ${from}`)
      await writeFile(path, `${before}${to}${after[0]}`)
    }
    return await run(root)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

interface TimedVerdict {
  readonly verdict: Verdict
  readonly tookMs: number
}

/** In a process of its own, since the code of `root` is what counts. */
async function runScenario(
  root: string,
  scenario: ScenarioName,
  patienceMs: number,
  statements: readonly string[] = [],
): Promise<TimedVerdict> {
  const startedAt = performance.now()
  const runner = join(root, 'test/resilience/mutations/run-scenario.ts')
  const child = spawn(process.execPath, [runner, scenario, String(Math.ceil(patienceMs)), ...statements], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const timer = setTimeout(() => child.kill('SIGTERM'), LONGEST_RUN_MS)
  const [output, problems] = await Promise.all([text(child.stdout), text(child.stderr)])
  clearTimeout(timer)
  const line = output.split('\n').find((candidate) => candidate.startsWith('{"violations":'))
  if (line === undefined) throw new Error(`the scenario ${scenario} did not end:\n${output}${problems}`)
  return { verdict: JSON.parse(line) as Verdict, tookMs: performance.now() - startedAt }
}

export const HELP = `Usage: npm run campaign -- mutations [options]

Takes one defence away at a time; the checker must find nothing with all of them, and report its loss without.

  --only <text>   the defences whose names contain it
  --json <file>   the report`

/** Exit code 1 when a loss goes unnoticed. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { only: { type: 'string' }, json: { type: 'string' } } })
  const chosen = mutations.filter(({ name }) => name.includes(values.only ?? ''))
  const outcomes = await runMutations(chosen, printOutcome)
  if (values.json !== undefined) await writeFile(values.json, JSON.stringify(outcomes, null, 2))
  const proven = outcomes.filter(({ isProven }) => isProven).length
  console.log(`\n${proven} of ${outcomes.length} lost defences were reported.`)
  return proven === outcomes.length ? 0 : 1
}

function printOutcome({ mutation, sound, mutated, isProven }: MutationOutcome): void {
  const { violations } = mutated
  const found = violations.find(({ invariant }) => invariant === mutation.reports)
  console.log(`${isProven ? 'reported' : 'MISSED  '}  ${mutation.reports.padEnd(9)} ${mutation.name}`)
  console.log(`          ${mutation.scenario}: ${found?.detail ?? 'nothing'}`)
  const others = new Set(
    violations.filter((one) => one !== found).map(({ invariant, detail }) => `${invariant} ${detail}`),
  )
  for (const other of [...others].slice(0, 4)) console.log(`          also ${other}`)
  if (sound.violations.length > 0 || sound.released === 0)
    console.log(`          with all defences: ${JSON.stringify(sound)}`)
}
