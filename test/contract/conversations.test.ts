import { describe, expect, it, test } from 'vitest'
import { jsonText } from '#shared/digests/canonical-json.ts'
import { JsonSource } from '#shared/json/json-source.ts'
import { chatCompletionResult } from '#shared/operations/text/chat-result.ts'
import { messageResult } from '#shared/operations/text/message-result.ts'
import type { TextOutput } from '#shared/operations/text/text-request.ts'
import { requestWire as anthropicWire } from '../../infra/sandbox/upstream/anthropic/request-wire.ts'
import { turnFault as anthropicTurnFault } from '../../infra/sandbox/upstream/anthropic/turn-faults.ts'
import { requestWire as geminiWire } from '../../infra/sandbox/upstream/gemini/request-wire.ts'
import { turnFault as geminiTurnFault } from '../../infra/sandbox/upstream/gemini/turn-faults.ts'
import { chatRequest, contradictionIn } from '../../infra/sandbox/upstream/openai/chat-request.ts'
import { ADAPTERS, type Dialect, readStored, sentBody, storedText } from '../support/json/passed-through.ts'
import { dataUri, pngHead } from '../unit/operations/sample-images.ts'
import { TEXT_MODEL } from '../unit/operations/small-catalog.ts'

/*
 * Conversations of agents: every answer of farebox goes back as history, in its own dialect or in the other, and reaches
 * each vendor with all that was said, in its order.
 */

const USAGE = { input_tokens: 9, output_tokens: 9 }
const SAID: TextOutput = { text: null, refusal: null, tool_calls: [], finish_reason: 'stop', usage: USAGE }
const call = (id: string, name: string, arguments_json: string) => ({ id, name, arguments_json })

/** Every kind of answer that there is. */
const ANSWERS: Readonly<Record<string, TextOutput>> = {
  text: { ...SAID, text: 'The tram leaves at 12:04.' },
  'a refusal': { ...SAID, refusal: 'I cannot help with that.', finish_reason: 'content_filter' },
  'a text that a filter cut': { ...SAID, text: 'So far', finish_reason: 'content_filter' },
  'nothing before a stop sequence': { ...SAID, text: '' },
  'a blank text': { ...SAID, text: ' \n' },
  'a text at its limit': { ...SAID, text: 'And then', finish_reason: 'length' },
  'structured output': { ...SAID, text: '{"reasoning":"late","answer":12}' },
  'a call': {
    ...SAID,
    tool_calls: [call('call_1', 'bash', '{"id":9007199254740993,"2":1.0,"1":null}')],
    finish_reason: 'tool_calls',
  },
  'a text and two calls': {
    ...SAID,
    text: 'Let me look.',
    tool_calls: [call('call_2', 'bash', '{"command":"ls"}'), call('call_3', 'read_file', '{}')],
    finish_reason: 'tool_calls',
  },
  'calls with ids that repeat': {
    ...SAID,
    tool_calls: [call('bash:0', 'bash', '{"n":1}'), call('bash:0', 'bash', '{"n":2}')],
    finish_reason: 'tool_calls',
  },
  'a call with other arguments': {
    ...SAID,
    tool_calls: [call('call/4?', 'bash', 'ls -l')],
    finish_reason: 'tool_calls',
  },
}

const FACTS = { id: '1', created: 1, model: TEXT_MODEL, includeThoughtSignatures: false }
type Json = Record<string, unknown>

interface Conversation {
  readonly history: unknown[]
  /** What was said: `user: …`, `assistant: …`, `call name: …`, `result: …`. */
  readonly said: string[]
}

/** Adds an answer as its caller received it, what its tools returned, and the next question. */
const TURNS: Readonly<Record<Dialect, (conversation: Conversation, output: TextOutput, turn: number) => void>> = {
  chat: ({ history }, output, turn) => {
    const result = JSON.parse(jsonText(chatCompletionResult(FACTS, output))) as { choices: [{ message: Json }] }
    history.push(result.choices[0].message)
    for (const [index, { id }] of output.tool_calls.entries())
      history.push({ role: 'tool', tool_call_id: id, content: `result ${turn}.${index}` })
    history.push({ role: 'user', content: `question ${turn}` })
  },
  messages: ({ history }, output, turn) => {
    const { content } = messageResult(FACTS, output)
    history.push({ role: 'assistant', content })
    const results = output.tool_calls.map(({ id }, index) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: `result ${turn}.${index}`,
    }))
    history.push({ role: 'user', content: [...results, { type: 'text', text: `question ${turn}` }] })
  },
}

function addTurn(dialect: Dialect, conversation: Conversation, output: TextOutput, turn: number): void {
  TURNS[dialect](conversation, output, turn)
  const text = `${output.text ?? ''}${output.refusal ?? ''}`
  if (text.trim() !== '') conversation.said.push(`assistant: ${text}`)
  for (const { name, arguments_json: json } of output.tool_calls) conversation.said.push(`call ${name}: ${json}`)
  for (const index of output.tool_calls.keys()) conversation.said.push(`result: result ${turn}.${index}`)
  conversation.said.push(`user: question ${turn}`)
}

const FIELDS: Readonly<Record<Dialect, string>> = {
  chat: '"tools":[{"type":"function","function":{"name":"bash"}},{"type":"function","function":{"name":"read_file"}}]',
  messages: '"max_tokens":512,"tools":[{"name":"bash","input_schema":{}},{"name":"read_file","input_schema":{}}]',
}

/** Returns why the simulated vendor refuses a body; `undefined` if it takes it. */
const FAULTS: Readonly<Record<string, (body: unknown) => string | undefined>> = {
  'openai-compatible': (body) => contradictionIn(chatRequest.parse(body)),
  gemini: (body) => geminiTurnFault(geminiWire.parse(body).contents),
  anthropic: (body) => anthropicTurnFault(anthropicWire.parse(body).messages),
}

async function reaching(dialect: Dialect, name: string, { history }: Conversation): Promise<string[]> {
  const adapter = ADAPTERS[name]
  if (adapter === undefined) throw new Error(`there is no adapter ${name}`)
  const { text } = storedText(dialect, `{"model":"${TEXT_MODEL}",${FIELDS[dialect]},"messages":${jsonText(history)}}`)
  const body = await sentBody(adapter, readStored(dialect, text))
  expect(FAULTS[name]?.(JSON.parse(body))).toBeUndefined()
  return adapter.said(body)
}

const pairs = Object.keys(ADAPTERS).flatMap((adapter) =>
  (['chat', 'messages'] as const).map((dialect) => [dialect, adapter] as const),
)

/** Arguments that are no object are named by the vendor's form, or by that of messages. */
const spoken = (lines: readonly string[]) =>
  lines.map((line) => line.replace(/\{"(?:arguments|raw_arguments)":"ls -l"\}$/, 'ls -l'))

describe.each(pairs)('a conversation of %s with %s', (dialect, adapter) => {
  test.each(Object.entries(ANSWERS))('goes on after %s, twice', async (_name, output) => {
    const conversation: Conversation = { history: [{ role: 'user', content: 'question' }], said: ['user: question'] }
    for (const turn of [1, 2]) {
      addTurn(dialect, conversation, output, turn)
      expect(spoken(await reaching(dialect, adapter, conversation))).toEqual(conversation.said)
    }
  })

  it('goes on for twelve turns from each kind of answer', async () => {
    const kinds = Object.values(ANSWERS)
    let conversations = 0
    for (const start of kinds.keys()) {
      const conversation: Conversation = { history: [{ role: 'user', content: 'question' }], said: ['user: question'] }
      for (let turn = 1; turn <= 12; turn += 1) {
        const output = kinds[(start + turn * (start + 1)) % kinds.length]
        if (output === undefined) throw new Error('every turn has an answer')
        addTurn(dialect, conversation, output, turn)
        expect(spoken(await reaching(dialect, adapter, conversation))).toEqual(conversation.said)
      }
      conversations += 1
    }
    expect(conversations).toBe(11)
  })
})

const functionCall = (id: string) => ({ id, type: 'function', function: { name: 'bash', arguments: '{}' } })
const asks = { role: 'user', content: 'question' }
const calls = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map(functionCall) })
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: `of ${id}` })

describe.each(Object.keys(ADAPTERS))(
  'calls and results that are not in a vendor’s order reach %s in it:',
  (adapter) => {
    test.each<[string, unknown[]]>([
      ['a text before the results', [asks, calls('a', 'b'), asks, result('b'), result('a')]],
      ['a text between the results', [asks, calls('a', 'b'), result('a'), asks, result('b')]],
      ['calls in neighboring messages', [asks, calls('a'), calls('b'), result('a'), result('b')]],
      ['calls before a text', [asks, calls('a'), { role: 'assistant', content: 'Wait.' }, result('a')]],
      ['a long id', [asks, calls('a'.repeat(41)), result('a'.repeat(41))]],
      ['one id twice', [asks, calls('a', 'a'), result('a'), result('a')]],
      ['one id in two turns', [asks, calls('a'), result('a'), calls('a'), result('a'), asks]],
    ])('%s', async (_name, history) => {
      const said = await reaching('chat', adapter, { history, said: [] })
      const expected = history.flatMap((message) => (message as { tool_calls?: unknown[] }).tool_calls ?? []).length
      expect(said.filter((line) => line.startsWith('call '))).toHaveLength(expected)
      expect(said.filter((line) => line.startsWith('result: '))).toHaveLength(expected)
    })
  },
)

const use = { type: 'tool_use', id: 'a', name: 'bash', input: {} }
const used = { type: 'tool_result', tool_use_id: 'a', content: 'of a' }

describe.each(Object.keys(ADAPTERS))('what is left of cut pairs reaches %s as text:', (adapter) => {
  test.each<[string, Dialect, unknown[], string[]]>([
    ['a result alone', 'chat', [result('a')], ['user: Result of a tool: of a']],
    ['a result after another turn', 'chat', [asks, { role: 'assistant', content: 'Hm.' }, result('a')], ['Result of']],
    ['one of two results', 'chat', [asks, calls('a', 'b'), result('b'), asks], ['Call of bash: {}', 'result: of b']],
    [
      'a result too many',
      'chat',
      [asks, calls('a'), result('a'), result('a')],
      ['result: of a', 'Result of bash: of a'],
    ],
    ['a call without any result', 'chat', [asks, calls('a'), asks], ['assistant: Call of bash: {}']],
    [
      'a call of the user',
      'messages',
      [
        { role: 'user', content: [use] },
        { role: 'user', content: [used] },
      ],
      ['Call of', 'of a'],
    ],
    [
      'a result beside its call',
      'messages',
      [asks, { role: 'assistant', content: [use, used] }, asks],
      ['Call of', 'of a'],
    ],
    [
      'calls at the beginning',
      'messages',
      [
        { role: 'assistant', content: [use] },
        { role: 'user', content: [used] },
      ],
      ['bash', 'of a'],
    ],
  ])('%s', async (_name, dialect, history, expected) => {
    const said = (await reaching(dialect, adapter, { history, said: [] })).join('\n')
    for (const words of expected) expect(said).toContain(words)
  })
})

describe('ids of calls', () => {
  it('are unique for Claude, and each result keeps its call', async () => {
    const conversation: Conversation = { history: [{ role: 'user', content: 'question' }], said: [] }
    const output = ANSWERS['calls with ids that repeat']
    if (output === undefined) throw new Error('there is no such answer')
    for (const turn of [1, 2, 3]) addTurn('chat', conversation, output, turn)
    const { text } = storedText(
      'chat',
      `{"model":"${TEXT_MODEL}",${FIELDS.chat},"messages":${jsonText(conversation.history)}}`,
    )
    const adapter = ADAPTERS['anthropic']
    if (adapter === undefined) throw new Error('there is no such adapter')
    const body = JSON.parse(await sentBody(adapter, readStored('chat', text))) as { messages: { content: Json[] }[] }
    const blocks = body.messages.flatMap(({ content }) => content)
    const used = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => id)
    expect(new Set(used).size).toBe(6)
    expect(blocks.filter(({ type }) => type === 'tool_result').map((block) => block['tool_use_id'])).toEqual(used)
  })
})

const priced = (url: string) =>
  storedText(
    'chat',
    `{"model":"${TEXT_MODEL}","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":${JSON.stringify(url)}}}]}]}`,
  ).text

describe('an image of a data URL', () => {
  const png = pngHead(9, 9).toString('base64')

  test.each([
    ['with a parameter', `data:image/png;charset=utf-8;base64,${png}`],
    ['with several parameters', `data:image/png;name="a;b,c.png";charset=UTF-8;base64,${png}`],
    ['in capital letters', `DATA:IMAGE/PNG;CHARSET=utf-8;BASE64,${png}`],
    ['with spaces', `data:image/png; charset=utf-8; base64,${png}`],
    ['that is percent-encoded', `data:image/png;base64,${encodeURIComponent(png)}`],
  ])('is read %s', (_name, url) => {
    expect(priced(url)).toBe(priced(dataUri(pngHead(9, 9))))
  })

  test.each([
    ['of a text', `data:text/plain;charset=utf-8;base64,${png}`],
    ['without Base64', `data:image/png;charset=utf-8,${png}`],
    ['with a parameter without a value', `data:image/png;x;base64,${png}`],
  ])('is refused %s', (_name, url) => {
    expect(() => priced(url)).toThrow('must be a Base64 data URI of type image/png')
  })
})

it('keeps the text of arguments that are no JSON', () => {
  expect(JsonSource.parse('ls -l')).toBeUndefined()
})
