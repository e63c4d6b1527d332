import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { errorToken } from '../../../workers/providers/error-token.ts'

const wire = z.object({ type: errorToken })
const read = (body: object) => wire.parse(body).type

describe('names in vendors’ errors', () => {
  it.each(['rate_limit_error', 'INVALID_ARGUMENT', 'BadRequestError', 'OTHER', 'a'])('keeps the name %s', (name) => {
    expect(read({ type: name })).toBe(name)
  })

  it.each([
    'my PIN is 4711',
    'jane.doe@example.com',
    '4111111111111111',
    'sk-CANARY',
    'AIza_CANARY_0f2c',
    'a__b',
    '_a',
    'a_',
    'a\nb',
    'é',
    '',
    'a'.repeat(65),
    'a_'.repeat(32).concat('b'),
    42,
    null,
    { text: 'CANARY' },
  ])('drops %j, which may quote the caller, and accepts the rest of the error', (name) => {
    expect(read({ type: name })).toBeUndefined()
  })

  it('accepts an error without a name', () => {
    expect(read({})).toBeUndefined()
  })
})
