import { describe, expect, it } from 'vitest'
import { attachWork, type PlannedWork } from '../../../../client/batch/plan/work.ts'
import type { BatchPlan } from '../../../../client/batch/types.ts'
import type { Farebox, KnownCall } from '../../../../client/farebox.ts'
import type { LimitStore } from '../../../../client/mcp/tool.ts'
import { agreeToBatch } from '../../../../client/mcp/transcription/agree-batch.ts'

/** A batch of one upload for 0.06 USDC, of which the journal knows something. */
function scene(known: Pick<KnownCall, 'state' | 'maximum'> | null, confirmAbove = '0.05') {
  const state = { confirmAbove, asked: [] as bigint[] }
  const upload = { key: 'key', price: 60_000n, upload: { durationMs: 60_000 } }
  const work = { jobs: [{ kind: 'file', uploads: [upload] }] } as unknown as PlannedWork
  const plan = attachWork({ totals: { toDo: 1 } } as BatchPlan, work)
  const limits = {
    current: () => ({ call: '1', session: '1', day: '1', confirmAbove: state.confirmAbove, tools: {} }),
    requireRoom: () => undefined,
  } satisfies Partial<LimitStore> as Partial<LimitStore> as LimitStore
  const farebox = { knownCall: () => known } as unknown as Farebox
  const ask = async ({ maximum }: { maximum: bigint }) => void state.asked.push(maximum)
  return { state, run: () => agreeToBatch({ limits }, { ask }, farebox, plan) }
}

describe('the agreement to a batch', () => {
  it.each([
    ['nothing was signed for is asked about', null, [60_000n]],
    ['was begun and not signed for is asked about', { state: 'begun', maximum: null }, [60_000n]],
    ['was signed for at this price is not asked about', { state: 'signed', maximum: '0.06' }, []],
    ['was signed for at a lower price is asked about', { state: 'signed', maximum: '0.04' }, [60_000n]],
  ] as const)('an upload that %s', async (_, known, asked) => {
    const { state, run } = scene(known)
    await run()
    expect(state.asked).toEqual(asked)
  })

  it('refuses a payment that nobody was asked about when the threshold was lowered below the price', async () => {
    const { state, run } = scene(null, '0.06')
    const beforePayment = await run()
    expect(beforePayment).not.toThrow()
    state.confirmAbove = '0.05'
    expect(beforePayment).toThrow('limits were lowered')
  })
})
