import { describe, expect, it } from 'vitest'
import type { LedgerTotals, SettlementTotals } from '#shared/jobs/reports-store.ts'
import type { DeploymentReport, SeenProcess } from '#shared/operators/process-report.ts'
import { illDeployments, judgeMoney, judgePeople } from '../../../operator/pages/now/conditions.ts'

const NOTHING = { signed: 0, confirmed: 0, unproven: 0, lost: 0, surplus: 0, unknown: 0 }
const settlements = (counts: Partial<SettlementTotals['counts']>, oldestSignedAgeSeconds = 0): SettlementTotals => ({
  counts: { ...NOTHING, ...counts },
  oldestSignedAgeSeconds,
})
const worker = (deployments: Record<string, DeploymentReport>) => ({ report: { deployments } }) as SeenProcess
const inReview = (count: number) => ({ inReview: count }) as LedgerTotals

describe('the start page', () => {
  it('says that money is stuck when a settlement waits for ten minutes', () => {
    expect(judgeMoney(settlements({}))).toEqual({ tone: 'good', sentence: 'No settlement waits.' })
    expect(judgeMoney(settlements({ signed: 2 }, 5)).tone).toBe('good')
    expect(judgeMoney(settlements({ signed: 2 }, 120)).tone).toBe('warning')
    expect(judgeMoney(settlements({ signed: 1 }, 600))).toEqual({
      tone: 'bad',
      sentence: 'Money is stuck: 1 settlement waits for confirmation, the oldest for 10 minutes.',
    })
  })

  it('names every kind of item that a person has to decide about', () => {
    expect(judgePeople(inReview(0), settlements({ signed: 3, confirmed: 4 })).tone).toBe('good')
    expect(judgePeople(inReview(1), settlements({ lost: 2, surplus: 3, unknown: 4 }))).toEqual({
      tone: 'bad',
      sentence:
        'A person has to decide: 1 in review, 2 lost after a reorganization, 3 charged twice, 4 settled without a record.',
    })
  })

  it('names the deployments that some worker does not call, with the worst that a worker sees', () => {
    const well: DeploymentReport = { circuit: 'closed', activeCalls: 0, isDrained: false, weight: 1 }
    expect(
      illDeployments([
        worker({ a: well, b: { ...well, circuit: 'half_open' }, c: { ...well, isDrained: true } }),
        worker({ a: well, b: { ...well, circuit: 'open' }, c: { ...well, isDrained: true } }),
        worker({ a: well, b: well }),
      ]),
    ).toEqual([
      { name: 'b', circuit: 'open', isDrained: false, workers: 2, ofWorkers: 3 },
      { name: 'c', circuit: 'closed', isDrained: true, workers: 2, ofWorkers: 2 },
    ])
  })
})
