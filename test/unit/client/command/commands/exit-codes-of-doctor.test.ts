import { describe, expect, it } from 'vitest'
import { exitCodeFor } from '../../../../../client/command/commands/doctor.ts'

describe('the exit code of doctor', () => {
  it.each([
    [0, []],
    [1, ['clock']],
    [3, ['budget']],
    [4, ['balance']],
    [4, ['allowance', 'budget']],
    [4, ['wallet']],
    [1, ['service', 'balance', 'allowance']],
    [1, ['open calls', 'balance']],
  ])('is %d for %j', (code, wrong) => {
    expect(exitCodeFor(wrong)).toBe(code)
  })
})
