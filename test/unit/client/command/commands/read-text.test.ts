import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { readText } from '../../../../../client/command/commands/calls/read-text.ts'
import { scriptedIo } from '../support/scripted-io.ts'

const { signal } = new AbortController()

function read(words: readonly string[], input?: string, isTerminal = false) {
  return readText(scriptedIo({ ...(input !== undefined && { input }), isTerminal }), words, signal, 'prompt')
}

describe('readText', () => {
  it('joins words by spaces', async () => {
    expect(await read(['Name', 'three', 'stops.'])).toBe('Name three stops.')
  })

  it('replaces - by standard input as a paragraph of its own', async () => {
    expect(await read(['Sum', 'up:', '-', 'In', 'English.'], 'the text\n')).toBe('Sum up:\n\nthe text\n\nIn English.')
  })

  it('reads standard input without arguments, and removes only the last line break', async () => {
    expect(await read([], 'one\n\ntwo\n\n')).toBe('one\n\ntwo\n')
    expect(await read([], 'one\r\n')).toBe('one')
  })

  it('leaves standard input alone when all is said in arguments', async () => {
    const io = { ...scriptedIo(), stdin: new Readable({ read: () => expect.unreachable() }) }
    expect(await readText(io, ['hello'], signal, 'prompt')).toBe('hello')
  })

  it.each([
    ['nothing on a terminal', [], '', true, 'No prompt was entered'],
    ['an empty pipe', [], '', false, 'The prompt is empty'],
    ['only spaces', ['  '], '', false, 'The prompt is empty'],
    ['standard input twice', ['-', '-'], 'a', false, 'only once'],
  ])('refuses %s', async (_name, words, input, isTerminal, message) => {
    await expect(read(words, input, isTerminal)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining(message) as string,
    })
  })

  it('refuses what is no UTF-8, and what is longer than any prompt', async () => {
    const binary = { ...scriptedIo(), stdin: Readable.from([Buffer.from([0xff, 0xfb, 0x90])]) }
    await expect(readText(binary, [], signal, 'prompt')).rejects.toThrow('not text in UTF-8')
    const megabyte = Buffer.alloc(1 << 20, 'a')
    const long = { ...scriptedIo(), stdin: Readable.from(Array.from({ length: 17 }, () => megabyte)) }
    await expect(readText(long, [], signal, 'prompt')).rejects.toThrow('longer than 16 MiB')
  })

  it('stops waiting for standard input when the program is interrupted', async () => {
    const interrupt = new AbortController()
    const io = { ...scriptedIo(), stdin: new Readable({ read: () => undefined }) }
    const text = readText(io, [], interrupt.signal, 'prompt')
    interrupt.abort()
    await expect(text).rejects.toMatchObject({ name: 'AbortError' })
  })
})
