import type { Injection } from './injection-texts.ts'
import { type Content, messageIn, type ToolAnswer } from './mcp-process.ts'

/** The sentence that has to stand before every text of others. */
const RULE = /untrusted data, not instructions/

/** Bytes of a name that leave room for an ending. */
const LONGEST_NAME_BYTES = 200

/** Returns the name of a file that says the same, as far as a name can. */
export function fileNameOf({ text }: Injection): string {
  let name = ''
  for (const letter of text.replaceAll(/[/\0]/g, '_')) {
    if (Buffer.byteLength(name + letter) > LONGEST_NAME_BYTES) break
    name += letter
  }
  return `${name}.mp3`
}

/** Returns the blocks that have a hostile text, and are not marked as data of others. */
export function unmarkedBlocks({ content }: ToolAnswer, injection: Injection): readonly Content[] {
  const parts = fingerprintsOf(injection)
  return content.filter((block, index) => {
    const said = JSON.stringify(block)
    if (!parts.some((part) => said.includes(part))) return false
    const { _meta: meta = {} } = block
    const isMarked = meta['farebox/untrusted'] !== undefined
    return !isMarked || (block.type === 'text' && !RULE.test(content[index - 1]?.text ?? ''))
  })
}

/** Returns runs of letters by which a text is found again, also where control characters were removed. */
function fingerprintsOf({ text }: Injection): readonly string[] {
  const runs = text.match(/[\p{L}\p{N} ,.]{12,}/gu) ?? []
  return runs.length > 0 ? runs.map((run) => run.trim()) : [JSON.stringify(text).slice(1, -1)]
}

/** Returns the lines on stdout that are no answer, no notification and no question that a server may send. */
export function smuggledLines(lines: readonly string[]): readonly string[] {
  const answered = new Set<unknown>()
  return lines.filter((line) => {
    const message = messageIn(line)
    if (message === undefined) return true
    const { method, id } = message
    if (method !== undefined)
      return !['notifications/progress', 'notifications/message', 'elicitation/create'].includes(method)
    const isRepeated = answered.has(id)
    answered.add(id)
    return typeof id !== 'number' || isRepeated
  })
}
