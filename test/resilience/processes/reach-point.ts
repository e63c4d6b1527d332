import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * What happens at an armed point: the process kills itself, stops until somebody continues it, the call that the point belongs
 * to fails, or it passes and only the hit is recorded.
 */
export type PointAction = 'kill' | 'stop' | 'throw' | 'pass'

/** Does what is armed at `point`, once, in the one process that gets there first. Throws for `throw`. */
export type ReachPoint = (point: string) => void

/**
 * Points live as files below `directory`: `armed/<point>` holds the action, and whichever process can move the file to
 * `hit/<point>~<pid>` acts. Synchronous throughout: nothing else of the process runs between the look and the end.
 */
export function createReachPoint(directory: string): ReachPoint {
  return (point) => {
    const action = takeArmed(directory, point)
    // Neither signal can be caught, so nothing of the process runs after it.
    if (action === 'kill') process.kill(process.pid, 'SIGKILL')
    if (action === 'stop') process.kill(process.pid, 'SIGSTOP')
    if (action === 'throw') throw new Error(`a fault was armed at ${point}`)
  }
}

function takeArmed(directory: string, point: string): string | null {
  const armed = join(directory, 'armed', point)
  try {
    const action = readFileSync(armed, 'utf8')
    renameSync(armed, join(directory, 'hit', `${point}~${process.pid}`))
    return action
  } catch (error) {
    // Not armed, or another process was faster.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** The campaign's side of the points. */
export interface PointControl {
  arm(point: string, action: PointAction): void
  /** Takes back what nobody has reached; `false` when somebody has. */
  disarm(point: string): boolean
  /** The process that acted at `point` since it was armed last, or `null`. */
  hitBy(point: string): number | null
}

export function createPointControl(directory: string): PointControl {
  mkdirSync(join(directory, 'armed'), { recursive: true })
  mkdirSync(join(directory, 'hit'), { recursive: true })
  const hitsOf = (point: string) => readdirSync(join(directory, 'hit')).filter((name) => name.startsWith(`${point}~`))
  return {
    arm: (point, action) => {
      for (const name of hitsOf(point)) renameSync(join(directory, 'hit', name), join(directory, `past-${name}`))
      // Appears whole under its name, so that no process reads an empty action.
      const prepared = join(directory, `${point}.prepared`)
      writeFileSync(prepared, action)
      renameSync(prepared, join(directory, 'armed', point))
    },
    disarm: (point) => {
      try {
        renameSync(join(directory, 'armed', point), join(directory, `${point}.disarmed`))
        return true
      } catch {
        return false
      }
    },
    hitBy: (point) => {
      const [name] = hitsOf(point)
      return name === undefined ? null : Number(name.slice(point.length + 1))
    },
  }
}
