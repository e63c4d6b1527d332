import { describe, expect, it } from 'vitest'
import { csvLine } from '../../../../../client/command/commands/calls/csv-line.ts'
import { renderFacts, renderTable } from '../../../../../client/command/commands/text-table.ts'

describe('tables', () => {
  it('align columns by what a terminal shows, numbers to the right', () => {
    const table = renderTable(
      ['name', 'USDC'],
      [
        ['日本.mp3', '0.005034'],
        ['a.mp3', '1'],
      ],
      { right: [1] },
    )
    expect(table).toBe(['name          USDC', '日本.mp3  0.005034', 'a.mp3            1'].join('\n'))
  })

  it('need no heading, and have no spaces at the ends of lines', () => {
    expect(
      renderTable(null, [
        ['ok', 'clock', ''],
        ['FAILED', 'rpc', 'down'],
      ]),
    ).toBe('ok      clock\nFAILED  rpc    down')
  })

  it('show control characters of names as escapes', () => {
    expect(renderTable(null, [['a\u001b[2J\nb', '1']])).toBe('a\\x1b[2J\\x0ab  1')
    expect(
      renderFacts([
        ['wallet', '0x1\u001b[2J'],
        ['gas', '0'],
      ]),
    ).toBe('wallet  0x1\\x1b[2J\ngas     0')
  })
})

describe('CSV', () => {
  it('quotes what needs it, and disarms formulas of spreadsheets', () => {
    expect(csvLine(['a', 'b,c', 'say "hi"', 'two\nlines', ''])).toBe('a,"b,c","say ""hi""","two\nlines",\r\n')
    expect(csvLine(['=1+1', '@x', '-2', '+3'])).toBe("'=1+1,'@x,'-2,'+3\r\n")
  })
})
