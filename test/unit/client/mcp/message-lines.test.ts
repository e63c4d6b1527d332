import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MessageLines, type RefusedLine } from '../../../../client/mcp/stdio/message-lines.ts'

const LARGEST = 200

/** Passes chunks through and returns what came out and what was refused. */
async function pass(chunks: readonly Buffer[]): Promise<{ messages: string[]; refused: RefusedLine[] }> {
  const refused: RefusedLine[] = []
  const lines = new MessageLines((line) => refused.push(line), LARGEST)
  const messages: string[] = []
  lines.on('data', (chunk: Buffer) => messages.push(chunk.toString('utf8')))
  for (const chunk of chunks) lines.write(chunk)
  lines.end()
  await once(lines, 'end')
  return { messages, refused }
}

function cut(text: string, places: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text)
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

const message = fc
  .tuple(fc.integer({ min: 0 }), fc.string({ maxLength: 30 }))
  .map(([id, text]) => JSON.stringify({ jsonrpc: '2.0', id, method: 'ping', params: { text } }))
const notJson = fc.constantFrom('{', 'ping', '{"jsonrpc":"2.0",', '\u0000', "{'id':1}")
const noMessage = fc.constantFrom('[]', 'null', '7', '{}', '{"jsonrpc":"1.0","id":1,"method":"ping"}', '"text"')
const tooLong = fc.integer({ min: LARGEST + 1, max: 4 * LARGEST }).map((length) => 'x'.repeat(length))
const line = fc.oneof(
  message.map((text) => ({ kind: 'message', text })),
  notJson.map((text) => ({ kind: 'not_json', text })),
  noMessage.map((text) => ({ kind: 'no_message', text })),
  tooLong.map((text) => ({ kind: 'too_long', text })),
)

describe('lines of standard input', () => {
  it('passes on each message whole and refuses each other line once, however the bytes arrive', async () => {
    const property = fc.asyncProperty(
      fc.array(line, { maxLength: 12 }),
      fc.array(fc.nat(), { maxLength: 12 }),
      async (given, places) => {
        const { messages, refused } = await pass(cut(given.map(({ text }) => `${text}\n`).join(''), places))
        expect(messages).toEqual(given.filter(({ kind }) => kind === 'message').map(({ text }) => `${text}\n`))
        expect(refused.map(({ code }) => code)).toEqual(
          given.filter(({ kind }) => kind !== 'message').map(({ kind }) => (kind === 'not_json' ? -32_700 : -32_600)),
        )
      },
    )
    await fc.assert(property, { numRuns: 300 })
  })

  it('answers what is no message under its id, if it has one', async () => {
    const { refused } = await pass([Buffer.from('{"id":7}\n{"id":{"a":1}}\n{"id":"seven","jsonrpc":"2.0"}\n')])
    expect(refused.map(({ id }) => id)).toEqual([7, null, 'seven'])
  })

  it('ignores empty lines and what has no end', async () => {
    expect(await pass([Buffer.from('\n  \r\n{"jsonrpc":"2.0"')])).toEqual({ messages: [], refused: [] })
  })

  it('releases a line that is too long while it arrives, and goes on behind it', async () => {
    const refused: RefusedLine[] = []
    const lines = new MessageLines((each) => refused.push(each), LARGEST)
    const chunks = Array.from({ length: 50 }, () => {
      const chunk = Buffer.alloc(10_000, 'x')
      lines.write(chunk)
      return new WeakRef(chunk.buffer)
    })
    await setImmediate()
    collectGarbage()
    expect(chunks.filter((chunk) => chunk.deref() !== undefined).length).toBeLessThan(5)
    lines.write('\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    expect(refused).toMatchObject([{ code: -32_600, message: expect.stringContaining('500000 bytes') as string }])
    expect(lines.read()).toEqual(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}\n'))
  })
})

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}
