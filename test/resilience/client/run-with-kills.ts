import { setTimeout as delay } from 'node:timers/promises'
import { PATIENCE_MS } from '../../support/patience.ts'
import type { CommandEnd, RunningCommand } from '../../support/processes/farebox-command.ts'
import type { Kill } from './draw-kills.ts'

const POLL_MS = 25
/** A command that makes no progress for so long is stuck, even if the service was restarted in between. */
const STUCK_MS = 3 * PATIENCE_MS
/** A run may fail, because a process of the service was killed; later ones must not. */
const RERUNS = 5

export interface RunsOptions {
  readonly kills: readonly Kill[]
  readonly start: () => RunningCommand
  /** Called before each run but the first. */
  readonly beforeRerun: (run: number) => Promise<void>
  readonly countFinished: () => Promise<number>
  readonly onRun?: (run: Run) => void
}

/** One run of the command. */
export interface Run {
  /** `null` for a run that was left to its end. */
  readonly kill: Kill | null
  readonly end: CommandEnd
  readonly finishedBefore: number
  readonly finishedAfter: number
  readonly errors: string
}

/** Runs the command, kills it at each of the moments, and runs it again until it ends by itself without a failure. */
export async function runWithKills(options: RunsOptions): Promise<readonly Run[]> {
  const runs: Run[] = []
  const moments: (Kill | null)[] = [...options.kills, ...Array.from({ length: RERUNS }, () => null)]
  for (const kill of moments) {
    if (runs.length > 0) await options.beforeRerun(runs.length)
    const run = await runOnce(options, kill)
    runs.push(run)
    options.onRun?.(run)
    if (run.end.code === 0) break
  }
  return runs
}

async function runOnce({ start, countFinished }: RunsOptions, kill: Kill | null): Promise<Run> {
  const finishedBefore = await countFinished()
  const command = start()
  let hasEnded = false
  void command.ended.then(() => (hasEnded = true))
  const isOver = () => hasEnded
  if (kill !== null) {
    await untilMoment(kill, command, countFinished, isOver)
    command.kill()
  } else {
    await untilEnded(command, countFinished, isOver)
  }
  const end = await command.ended
  return {
    kill: end.signal === null ? null : kill,
    end,
    finishedBefore,
    finishedAfter: await countFinished(),
    errors: command.errors(),
  }
}

async function untilMoment(
  { afterFinished, delayMs }: Kill,
  command: RunningCommand,
  countFinished: () => Promise<number>,
  isOver: () => boolean,
): Promise<void> {
  if (afterFinished !== null) {
    const hasBegun = () => command.events.some(({ event }) => event === 'started')
    await untilProgress(
      command,
      countFinished,
      async () => isOver() || (hasBegun() && (await countFinished()) >= afterFinished),
    )
  }
  await Promise.race([delay(delayMs), command.ended])
}

function untilEnded(command: RunningCommand, countFinished: () => Promise<number>, isOver: () => boolean) {
  return untilProgress(command, countFinished, async () => isOver())
}

/** Polls; throws when neither transcripts nor events are added any more. */
async function untilProgress(
  command: RunningCommand,
  countFinished: () => Promise<number>,
  isReached: () => Promise<boolean>,
): Promise<void> {
  let [seen, changedAt] = ['', performance.now()]
  while (!(await isReached())) {
    const now = `${await countFinished()} ${command.events.length}`
    if (now !== seen) [seen, changedAt] = [now, performance.now()]
    if (performance.now() - changedAt > STUCK_MS) {
      command.kill()
      throw new Error(`the command is stuck at ${now} (transcripts and events): ${command.errors()}`)
    }
    await delay(POLL_MS)
  }
}
