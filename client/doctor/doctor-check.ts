import { FareboxError } from '../wire/farebox-error.ts'

/** One thing that payments need. */
export interface DoctorCheck {
  /** A word or two for a table, such as `clock`. */
  readonly name: string
  readonly ok: boolean
  /** What was found when it is in order. */
  readonly found: string | null
  /** What is wrong, and what to do about it, when it is not. */
  readonly problem: string | null
  readonly advice: string | null
}

export interface DoctorOptions {
  /** Further checks, which run after the others. */
  readonly also?: readonly (() => Promise<DoctorCheck>)[] | undefined
  readonly signal?: AbortSignal | undefined
}

export function fine(name: string, found: string): DoctorCheck {
  return { name, ok: true, found, problem: null, advice: null }
}

export function wrong(name: string, problem: string, advice: string): DoctorCheck {
  return { name, ok: false, found: null, problem, advice }
}

/** Runs a check; what it throws is what is wrong. */
export async function examine(name: string, check: () => DoctorCheck | Promise<DoctorCheck>): Promise<DoctorCheck> {
  try {
    return await check()
  } catch (error) {
    if (error instanceof FareboxError) return wrong(name, error.problem, error.advice)
    return wrong(name, error instanceof Error ? error.message : String(error), 'Mend this, then check again.')
  }
}
