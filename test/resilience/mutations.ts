import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { PATIENCE_MS } from '../support/patience.ts'
import type { Verdict } from './mutations/bench.ts'
import { changeSyntax } from './mutations/change-syntax.ts'
import { type Mutation, mutations } from './mutations/mutation-list.ts'
import type { ScenarioName } from './mutations/scenarios.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** The parts of the repository that run. */
const COPIED = ['api', 'workers', 'operator', 'shared', 'packages', 'infra', 'test', 'package.json', 'tsconfig.json']
/** Installed packages are linked instead. */
const isOurs = (path: string) => !path.endsWith('/node_modules')
/** For an unmodified service, which never gets stuck. */
const SOUND_PATIENCE_MS = 5 * PATIENCE_MS
/**
 * A mutated service may get stuck: no step may take longer than this multiple of the unmodified service's whole
 * scenario.
 */
const MUTATED_PATIENCE = 2
const LEAST_MUTATED_PATIENCE_MS = 10_000
/** Ends a runner that does not end by itself. */
const LONGEST_RUN_MS = 4 * SOUND_PATIENCE_MS

export interface MutationOutcome {
  readonly mutation: Mutation
  /** The verdict on the same scenario with all safeguards in place. */
  readonly sound: Verdict
  readonly mutated: Verdict
  readonly isProven: boolean
}

/**
 * Removes one safeguard at a time and runs the checker: it must find no violation with all safeguards in place, and
 * report the named invariant without this one. `onOutcome` is called with each outcome.
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

async function inMutatedCopy<T>({ changes = [] }: Mutation, run: (root: string) => Promise<T>): Promise<T> {
  if (changes.length === 0) return await run(ROOT)
  const root = await mkdtemp(join(tmpdir(), 'farebox-mutation-'))
  try {
    for (const name of COPIED) await cp(join(ROOT, name), join(root, name), { recursive: true, filter: isOurs })
    await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'))
    for (const [file, changesOfFile] of Map.groupBy(changes, (change) => change.file)) {
      const path = join(root, file)
      await writeFile(path, changeSyntax(await readFile(path, 'utf8'), changesOfFile))
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

/** Runs a scenario with the code below `root`, in a separate process. */
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

Removes one safeguard at a time. The checker must report its absence, and no violation while all safeguards are in place.

  --only <text>   only safeguards whose names contain the text
  --json <file>   write the report to this file`

/** Runs the command. Returns exit code 1 when a removed safeguard goes unnoticed. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { only: { type: 'string' }, json: { type: 'string' } } })
  const chosen = mutations.filter(({ name }) => name.includes(values.only ?? ''))
  if (chosen.length === 0) {
    console.error(
      `No safeguard has "${values.only}" in its name:\n${mutations.map(({ name }) => `  ${name}`).join('\n')}`,
    )
    return 2
  }
  const outcomes = await runMutations(chosen, printOutcome)
  if (values.json !== undefined) await writeFile(values.json, JSON.stringify(outcomes, null, 2))
  const proven = outcomes.filter(({ isProven }) => isProven).length
  console.log(`\n${proven} of ${outcomes.length} removed safeguards were reported.`)
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
    console.log(`          with all safeguards: ${JSON.stringify(sound)}`)
}
