import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createDelimiterCounter } from '../../../api/request/form-delimiters.ts'

const TYPE = 'multipart/form-data; boundary=b-1'

function count(body: string, size = body.length, type = TYPE): number {
  const counter = createDelimiterCounter(type)
  for (let at = 0; at < body.length; at += size) counter.add(Buffer.from(body.slice(at, at + size)))
  return counter.total()
}

describe('counting the delimiters of a form', () => {
  it('counts a delimiter at the start and after each line break, however the form is cut into chunks', () => {
    const form = 'x--b-1\r\n--b-1\r\nhead\r\n\r\nvalue--b-1\n--b-1\r\n--b-1 \t\r\n\r\n--b-1--\r\n'
    for (let size = 1; size <= form.length; size += 1) expect(count(form, size)).toBe(3)
    for (let size = 1; size <= form.length; size += 1) expect(count(`--b-1\r\n${form}`, size)).toBe(4)
  })

  it('counts the same in any two ways of cutting any text', () => {
    const text = fc.array(fc.constantFrom('\r', '\n', '-', 'b', '1', '\r\n--b-1'), { maxLength: 60 })
    const size = fc.integer({ min: 1, max: 20 })
    fc.assert(
      fc.property(text, size, (pieces, chunk) => {
        expect(count(pieces.join(''), chunk)).toBe(count(pieces.join(''), Number.MAX_SAFE_INTEGER))
      }),
    )
  })

  it.each([
    'multipart/form-data; boundary="b-1"',
    'multipart/form-data;charset=utf-8;Boundary=b-1',
    'multipart/form-data; boundary=b-1 ; x=y',
  ])('reads the boundary of %s', (type) => {
    expect(count('--b-1\r\n--b-1--', undefined, type)).toBe(2)
  })
})
