import type { SeenProcess } from '#shared/operators/process-report.ts'
import type { KeyFacts } from './facts.ts'

/** One step of a rotation. */
export interface Step {
  readonly instruction: string
  readonly isDone: boolean
  /** What was found. */
  readonly detail: string
}

/** Says how many of the processes have made a change of settings. */
export function changeOf(
  processes: readonly SeenProcess[],
  name: string,
  hasChanged: (process: SeenProcess) => boolean,
  problem: string,
): Pick<Step, 'isDone' | 'detail'> {
  if (processes.length === 0) return { isDone: false, detail: `none of the ${name} reports` }
  const others = processes.filter((process) => !hasChanged(process))
  if (others.length === 0) return { isDone: true, detail: `${processes.length} of ${processes.length} ${name}` }
  const names = others.map(({ instance }) => instance).join(', ')
  return { isDone: false, detail: `${others.length} of ${processes.length} ${name} ${problem}: ${names}` }
}

/** Waits for the callers that were offered the old key: settings are read at the start of a process. */
export function waitForCallers(
  apis: readonly SeenProcess[],
  offersNew: (api: SeenProcess) => boolean,
  { now, challengeSeconds }: Pick<KeyFacts, 'now' | 'challengeSeconds'>,
): Step {
  const instruction = `Wait ${challengeSeconds} seconds: callers may still answer challenges with the old value.`
  if (apis.length === 0 || !apis.every(offersNew)) return { instruction, isDone: false, detail: 'not begun' }
  const lastStart = Math.max(...apis.map(({ startedAt }) => startedAt.getTime()))
  const until = new Date(lastStart + challengeSeconds * 1000)
  return { instruction, isDone: now >= until, detail: `until ${until.toISOString()}` }
}
