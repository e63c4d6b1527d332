import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The action at an armed point: the process kills itself, stops until it is continued, fails the call that the point
 * belongs to, or passes and only records the hit.
 */
export type PointAction = 'kill' | 'stop' | 'throw' | 'pass'

/**
 * Executes the action armed at `point`, once, in the first process that gets there. Throws for `throw`. A call about a
 * known number of payments passes a point that was armed for more.
 */
export type ReachPoint = (point: string, payments?: number | null) => void

/**
 * Points are files below `directory`: `armed/<point>` contains the action and the least number of payments, and the
 * process that succeeds in moving the file to `hit/<point>~<pid>` executes it. Synchronous: no other code of the process
 * runs in between.
 */
export function createReachPoint(directory: string): ReachPoint {
  return (point, payments = null) => {
    const action = takeArmed(directory, point, payments)
    // Neither signal can be caught, so no code of the process runs after it.
    if (action === 'kill') process.kill(process.pid, 'SIGKILL')
    if (action === 'stop') process.kill(process.pid, 'SIGSTOP')
    if (action === 'throw') throw new Error(`a fault was armed at ${point}`)
  }
}

function takeArmed(directory: string, point: string, payments: number | null): string | null {
  const armed = join(directory, 'armed', point)
  try {
    const [action = '', least] = readFileSync(armed, 'utf8').split(' ')
    if (payments !== null && payments < Number(least)) return null
    renameSync(armed, join(directory, 'hit', `${point}~${process.pid}`))
    return action
  } catch (error) {
    // Not armed, or another process came first.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** The campaign's side of the points. */
export interface PointControl {
  /** The action waits for a call of at least `leastPayments`, where their number is known. */
  arm(point: string, action: PointAction, leastPayments?: number): void
  /** Disarms a point; returns `false` when a process has already reached it. */
  disarm(point: string): boolean
  /** Returns the process that acted at `point` since it was last armed, or `null`. */
  hitBy(point: string): number | null
}

export function createPointControl(directory: string): PointControl {
  mkdirSync(join(directory, 'armed'), { recursive: true })
  mkdirSync(join(directory, 'hit'), { recursive: true })
  const hitsOf = (point: string) => readdirSync(join(directory, 'hit')).filter((name) => name.startsWith(`${point}~`))
  return {
    arm: (point, action, leastPayments = 0) => {
      for (const name of hitsOf(point)) renameSync(join(directory, 'hit', name), join(directory, `past-${name}`))
      // Renamed into place, so that no process reads an empty action.
      const prepared = join(directory, `${point}.prepared`)
      writeFileSync(prepared, `${action} ${leastPayments}`)
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
