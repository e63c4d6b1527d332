import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { defineTool } from '../../../../client/mcp/define-tool.ts'
import type { Exchange, McpSession } from '../../../../client/mcp/tool.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'

const texts = { name: 'double', title: 'Double', description: 'Doubles.', annotations: {} }
const [session, exchange] = [{} as McpSession, {} as Exchange]

function doubling(result: (n: number) => unknown) {
  return defineTool({
    ...texts,
    inputSchema: z.strictObject({ n: z.number() }),
    outputSchema: z.object({ n: z.number() }),
    run: async (_session, _exchange, { n }) => ({ structured: { n: result(n) as number }, content: [] }),
  })
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  const error = await work.catch((thrown: unknown) => thrown)
  return error instanceof FareboxError ? [error.code, error.money] : error
}

describe('a tool', () => {
  it.each([undefined, null, 7, 'n', [], {}, { n: '1' }, { n: 1, more: true }])(
    'refuses arguments that do not match its schema, before it runs: %j',
    async (input) => {
      const tool = doubling(() => {
        throw new Error('it ran')
      })
      expect(await codeOf(tool.run(session, exchange, input))).toEqual(['invalid_arguments', 'none'])
    },
  )

  it('returns a result that matches its schema', async () => {
    expect(await doubling((n) => n * 2).run(session, exchange, { n: 2 })).toMatchObject({ structured: { n: 4 } })
  })

  it('reports a result that does not match, and leaves the money open', async () => {
    const tool = doubling(() => 'four')
    expect(await codeOf(tool.run(session, exchange, { n: 2 }))).toEqual(['answer_damaged', 'unknown'])
  })
})
