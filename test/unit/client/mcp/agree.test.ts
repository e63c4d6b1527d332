import { describe, expect, it } from 'vitest'
import type { Farebox } from '../../../../client/farebox.ts'
import { agree } from '../../../../client/mcp/call/agree.ts'
import type { LimitStore } from '../../../../client/mcp/tool.ts'

const farebox = {} as Farebox
const question = { tool: 'chat', key: 'key', maximum: 60_000n, summary: 'ask a text model' }

/** Limits whose threshold can be changed, and a person who counts the questions. */
function scene(confirmAbove: string) {
  const state = { confirmAbove, asked: 0 }
  const limits = {
    current: () => ({ call: '1', session: '1', day: '1', confirmAbove: state.confirmAbove, tools: {} }),
    requireRoom: () => undefined,
  } satisfies Partial<LimitStore>
  const ask = async () => {
    state.asked += 1
  }
  return {
    state,
    run: () => agree({ limits: limits as Partial<LimitStore> as LimitStore }, farebox, { ask }, question),
  }
}

describe('the agreement to a price', () => {
  it.each([
    ['0.06', 0],
    ['0.059999', 1],
    ['0', 1],
  ])('above %s asks a person %i times', async (confirmAbove, asked) => {
    const { state, run } = scene(confirmAbove)
    await run()
    expect(state.asked).toBe(asked)
  })

  it('is refused before the payment when the threshold was lowered below a price that nobody was asked about', async () => {
    const { state, run } = scene('0.06')
    const beforePayment = await run()
    expect(beforePayment).not.toThrow()
    state.confirmAbove = '0.01'
    expect(beforePayment).toThrow('limits were lowered')
  })

  it('of a person holds for this call although the threshold was lowered', async () => {
    const { state, run } = scene('0.05')
    const beforePayment = await run()
    state.confirmAbove = '0.01'
    expect(beforePayment).not.toThrow()
  })
})
