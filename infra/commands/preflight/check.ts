/** The outcome of one check. `skipped` proves nothing: `detail` says what the check would have needed. */
export interface Check {
  readonly check: string
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly detail: string
}

export const passed = (check: string, detail: string): Check => ({ check, outcome: 'passed', detail })
export const failed = (check: string, detail: string): Check => ({ check, outcome: 'failed', detail })
export const skipped = (check: string, detail: string): Check => ({ check, outcome: 'skipped', detail })

/** Returns `passed` when there are no problems. */
export function judged(check: string, problems: readonly string[], detail: string): Check {
  return problems.length === 0 ? passed(check, detail) : failed(check, problems.join('; '))
}

const MARKS = { passed: '✓', failed: '✗', skipped: '–' } as const

/** Prints a check on one line; the lines of its detail are aligned. */
export function printCheck({ check, outcome, detail }: Check, width = 12): void {
  const [first = '', ...rest] = detail.split('\n')
  console.log(`${MARKS[outcome]} ${check.padEnd(width)} ${first}`)
  for (const line of rest) console.log(`${' '.repeat(width + 3)}${line}`)
}
