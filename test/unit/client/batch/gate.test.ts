import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Gate } from '../../../../client/batch/run/gate.ts'

/** A gate whose clock the test moves. */
function makeGate(limit: number) {
  const clock = { now: 0 }
  const changes: [number, string][] = []
  const gate = new Gate({ limit, now: () => clock.now, onChange: (...change) => changes.push(change) })
  const granted: string[] = []
  const enter = (name: string, kind: 'file' | 'part' = 'file') =>
    void gate.enter(kind).then((isGranted) => granted.push(isGranted ? name : `${name} refused`))
  return { gate, clock, changes, granted, enter }
}

/** Lets promises that are resolved take effect. */
async function settle(): Promise<void> {
  await new Promise(setImmediate)
}

describe('the gate of uploads', () => {
  it('never lets in more than its limit', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.array(fc.constantFrom('enter', 'part', 'leave', 'busy', 'success'), { maxLength: 80 }),
        async (limit, steps) => {
          const { gate, clock, granted, enter } = makeGate(limit)
          let left = 0
          for (const [index, step] of steps.entries()) {
            clock.now += 700
            if (step === 'enter') enter(`${index}`)
            if (step === 'part') enter(`${index}`, 'part')
            if (step === 'busy') gate.slowDown('overloaded', 500)
            if (step === 'success') gate.succeeded()
            await settle()
            const inside = granted.length - left
            if (step === 'leave' && inside > 0) {
              left += 1
              gate.leave()
              await settle()
            }
            expect(granted.length - left).toBeLessThanOrEqual(limit)
            expect(gate.limit).toBeGreaterThanOrEqual(1)
            expect(gate.limit).toBeLessThanOrEqual(limit)
          }
          gate.dispose()
        },
      ),
    )
  })

  it('halves its limit once for all that is turned away at the same time, and holds new uploads back', async () => {
    const { gate, clock, changes, granted, enter } = makeGate(8)
    for (let turnedAway = 0; turnedAway < 8; turnedAway++) gate.slowDown('overloaded', 3000)
    expect(changes).toEqual([[4, 'overloaded']])
    enter('new')
    await settle()
    expect(granted).toEqual([])
    clock.now = 3001
    enter('another')
    await settle()
    expect(granted).toEqual(['new', 'another'])
    gate.slowDown('overloaded', 1000)
    expect(gate.limit).toBe(2)
    gate.dispose()
  })

  it('grows by one after as many successes as its limit, and not beyond what was asked', () => {
    const { gate, clock, changes } = makeGate(4)
    gate.slowDown('overloaded', 1000)
    clock.now = 1000
    gate.succeeded()
    expect(gate.limit).toBe(2)
    for (let successes = 0; successes < 20; successes++) gate.succeeded()
    expect(changes).toEqual([
      [2, 'overloaded'],
      [3, 'recovered'],
      [4, 'recovered'],
    ])
    gate.dispose()
  })

  it('lets in one at a time to the end where the wallet cannot pay for more at once', () => {
    const { gate } = makeGate(4)
    gate.oneAtATime('not_approved')
    for (let successes = 0; successes < 20; successes++) gate.succeeded()
    expect(gate.limit).toBe(1)
    gate.dispose()
  })

  it('lets in further parts of what is begun before new files', async () => {
    const { gate, granted, enter } = makeGate(1)
    enter('first')
    enter('new file')
    enter('part', 'part')
    gate.leave()
    await settle()
    expect(granted).toEqual(['first', 'part'])
  })

  it('refuses new files when it is closed, and still lets in parts', async () => {
    const { gate, granted, enter } = makeGate(1)
    enter('first')
    enter('new file')
    enter('part', 'part')
    gate.close()
    await settle()
    expect(granted).toEqual(['first', 'new file refused'])
    gate.leave()
    enter('later file')
    await settle()
    expect(granted).toEqual(['first', 'new file refused', 'part', 'later file refused'])
  })

  it('ends a pause when it is aborted', async () => {
    const { gate, granted, enter } = makeGate(2)
    gate.slowDown('overloaded', 60_000)
    enter('part', 'part')
    gate.abort()
    await settle()
    expect(granted).toEqual(['part'])
    gate.dispose()
  })
})
