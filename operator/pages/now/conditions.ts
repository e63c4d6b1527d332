import type { LedgerTotals } from '#shared/ledger/reports/ledger-totals.ts'
import type { SettlementTotals } from '#shared/ledger/reports/reports-store.ts'
import type { DeploymentReport, SeenProcess } from '#shared/operators/process-report.ts'

/** One answer of the start page. */
export interface Condition {
  readonly tone: 'good' | 'warning' | 'bad'
  readonly sentence: string
}

/** A settlement is confirmed within seconds; one that waits longer is in the way of others. */
const SLOW_SETTLEMENT_SECONDS = 120
const STUCK_SETTLEMENT_SECONDS = 600

/** Returns whether settlements get through. */
export function judgeMoney({ counts, oldestSignedAgeSeconds: age }: SettlementTotals): Condition {
  const waiting = `${counts.signed} ${counts.signed === 1 ? 'settlement waits' : 'settlements wait'} for confirmation`
  if (age >= STUCK_SETTLEMENT_SECONDS)
    return { tone: 'bad', sentence: `Money is stuck: ${waiting}, the oldest for ${Math.floor(age / 60)} minutes.` }
  if (age >= SLOW_SETTLEMENT_SECONDS)
    return { tone: 'warning', sentence: `${waiting}, the oldest for ${Math.floor(age / 60)} minutes.` }
  return { tone: 'good', sentence: counts.signed === 0 ? 'No settlement waits.' : `${waiting}, none for long.` }
}

/** Returns whether something is left for a person to decide. */
export function judgePeople({ inReview }: LedgerTotals, { counts }: SettlementTotals): Condition {
  const items = [
    [inReview, 'in review'],
    [counts.lost, 'lost after a reorganization'],
    [counts.surplus, 'charged twice'],
    [counts.unknown, 'settled without a record'],
  ] as const
  const open = items.filter(([count]) => count > 0)
  if (open.length === 0) return { tone: 'good', sentence: 'Nothing needs a person.' }
  const list = open.map(([count, what]) => `${count} ${what}`).join(', ')
  return { tone: 'bad', sentence: `A person has to decide: ${list}.` }
}

export interface IllDeployment {
  readonly name: string
  readonly circuit: DeploymentReport['circuit']
  readonly isDrained: boolean
  /** The workers that see it so, of all that call it. */
  readonly workers: number
  readonly ofWorkers: number
}

const SEVERITY: Readonly<Record<DeploymentReport['circuit'], number>> = { open: 2, half_open: 1, closed: 0 }

/** Returns the deployments that some worker does not call, or only tries. */
export function illDeployments(running: readonly SeenProcess[]): readonly IllDeployment[] {
  const reports = running.flatMap(({ report }) => Object.entries(report.deployments ?? {}))
  return [...Map.groupBy(reports, ([name]) => name)]
    .map(([name, seen]): IllDeployment => {
      const states = seen.map(([, report]) => report)
      const ill = states.filter(({ circuit, isDrained }) => circuit !== 'closed' || isDrained)
      const circuits = ill.map(({ circuit }) => circuit).sort((one, other) => SEVERITY[other] - SEVERITY[one])
      return {
        name,
        circuit: circuits[0] ?? 'closed',
        isDrained: states.some(({ isDrained }) => isDrained),
        workers: ill.length,
        ofWorkers: states.length,
      }
    })
    .filter(({ workers }) => workers > 0)
}
