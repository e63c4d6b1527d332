import { expect, test } from 'vitest'
import { csvLines } from '#shared/csv/csv-lines.ts'

test('quotes what would end a cell, and doubles quotes', () => {
  expect(csvLines([['a', 'b,c', 'd"e', 'f\r\ng', '']])).toBe('a,"b,c","d""e","f\r\ng",\r\n')
})

test.each(['=1+1', '+1', '-cmd', '@sum', '\tx', '\rx', '\nx', '-1-1', '-1e5'])(
  'text cannot become a formula: %j',
  (text) => {
    expect(csvLines([[text]])).toMatch(/^"?'/)
  },
)

test.each(['-1', '-0.000034', '0.005034', '17'])('numbers stay numbers: %s', (number) => {
  expect(csvLines([[number]])).toBe(`${number}\r\n`)
})
