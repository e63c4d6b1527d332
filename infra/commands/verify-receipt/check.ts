/** One thing that was looked at. `skipped` is neither proof nor doubt: `detail` says what it would have taken. */
export interface Check {
  readonly check: string
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly detail: string
}

export const passed = (check: string, detail: string): Check => ({ check, outcome: 'passed', detail })
export const failed = (check: string, detail: string): Check => ({ check, outcome: 'failed', detail })
export const skipped = (check: string, detail: string): Check => ({ check, outcome: 'skipped', detail })

/** `passed` unless there is something wrong. */
export function judged(check: string, problems: readonly string[], detail: string): Check {
  return problems.length === 0 ? passed(check, detail) : failed(check, problems.join('; '))
}

/** There is no receipt to look at; the message says what to do about it. */
export class NothingToVerify extends Error {}
