import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { decodeCanonicalBase64 } from '#shared/operations/canonical-base64.ts'
import { CHAT_OPTIONS, MESSAGE_OPTIONS } from '#shared/operations/text/option-rules.ts'
import { dataUri, gifHead, jpegHead, pngHead, webpHead } from './sample-images.ts'
import { fieldFault, IMAGE_MODEL, SPEECH_MODEL, TEXT_MODEL } from './small-catalog.ts'

const hello = [{ role: 'user', content: 'Hello' }]
const bodies: Record<string, Record<string, unknown>> = {
  createChatCompletion: { model: TEXT_MODEL, messages: hello },
  createMessage: { model: TEXT_MODEL, messages: hello, max_tokens: 16 },
  createImageGeneration: { model: IMAGE_MODEL, prompt: 'A lighthouse' },
  createSpeech: { model: SPEECH_MODEL, input: 'Hello' },
}
const [chat, message, image, speech] = [
  'createChatCompletion',
  'createMessage',
  'createImageGeneration',
  'createSpeech',
] as const
function userContent(content: unknown, more: object = {}) {
  return { messages: [{ role: 'user', content, ...more }] }
}
function imagePart(url: unknown) {
  return userContent([{ type: 'image_url', image_url: { url } }])
}
function imageBlock(source: unknown) {
  return userContent([{ type: 'image', source }])
}
const base64Png = pngHead(8, 8).toString('base64')
const accepted: [operation: string, what: string, fields: object][] = [
  [chat, 'the smallest body', {}],
  ...[1, 65_536].map((max_tokens) => [chat, `max_tokens ${max_tokens}`, { max_tokens }] as [string, string, object]),
  [chat, 'stream false', { stream: false }],
  [chat, 'an unknown extra property', { colour: 'red', metadata: { a: [1] } }],
  ...[chat, message].map((operation): [string, string, object] => [
    operation,
    'null for every option',
    Object.fromEntries(Object.keys({ ...CHAT_OPTIONS, ...MESSAGE_OPTIONS }).map((name) => [name, null])),
  ]),
  [
    chat,
    'options that ask for nothing',
    { store: false, logprobs: false, top_logprobs: 0, logit_bias: {}, modalities: ['text'], service_tier: 'default' },
  ],
  [
    message,
    'options that ask for nothing',
    { service_tier: 'standard_only', speed: 'standard', inference_geo: 'global', mcp_servers: [], fallbacks: [] },
  ],
  [chat, 'a seed of 53 bits', { seed: Number.MAX_SAFE_INTEGER }],
  [chat, 'tools of any kind', { tools: [1, null, 'x', { type: 'web_search' }] }],
  [chat, 'any response_format', { response_format: 'whatever' }],
  [chat, 'an empty text', userContent('')],
  [chat, 'no parts', userContent([])],
  [chat, 'a role of its own', { messages: [{ role: 'critic', content: 'x' }] }],
  [chat, 'a refusal part', userContent([{ type: 'refusal', refusal: 'No.' }])],
  [chat, 'extra properties of parts', userContent([{ type: 'text', text: 'x', cache_control: {} }], { name: 'Ann' })],
  [chat, 'an https image', imagePart('https://example.com/a.png')],
  [chat, 'an inline PNG', imagePart(dataUri(pngHead(8, 8)))],
  [chat, 'an inline JPEG', imagePart(dataUri(jpegHead(8, 8), 'image/jpeg'))],
  [chat, 'an inline WebP', imagePart(dataUri(webpHead, 'image/webp'))],
  [chat, 'an inline GIF', imagePart(dataUri(gifHead, 'image/gif'))],
  [chat, 'null content next to tool_calls', userContent(null, { tool_calls: [{}] })],
  [chat, 'absent content next to tool_calls', userContent(undefined, { tool_calls: [{}] })],
  [
    chat,
    'null for what a turn or a call has none of',
    {
      messages: [
        ...hello,
        { role: 'assistant', content: 'x', tool_calls: null, function_call: null },
        { role: 'assistant', content: 'x', tool_calls: [{ id: null, function: { name: 'f', arguments: null } }] },
      ],
    },
  ],
  [chat, 'null content next to function_call', userContent(null, { function_call: { name: 'f', arguments: '{}' } })],
  [message, 'the smallest body', {}],
  [message, 'max_tokens 1', { max_tokens: 1 }],
  [message, 'max_tokens 65536', { max_tokens: 65_536 }],
  [message, 'system text', { system: 'Be brief.' }],
  [message, 'system blocks', { system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }] }],
  [
    message,
    'thinking blocks',
    userContent([{ type: 'thinking', thinking: 'x', signature: 'y' }, { type: 'redacted_thinking' }]),
  ],
  [
    message,
    'a tool use and its result',
    userContent([
      { type: 'tool_use', id: '1', name: 'f', input: {} },
      { type: 'tool_result', tool_use_id: '1' },
    ]),
  ],
  [message, 'a Base64 image', imageBlock({ type: 'base64', media_type: 'image/png', data: base64Png })],
  [message, 'an https image', imageBlock({ type: 'url', url: 'https://example.com/a.png' })],
  [image, 'the smallest body', {}],
  [
    image,
    'all options',
    { n: 1, image_size: '1K', aspect_ratio: '1:1', size: '1024x1024', response_format: 'b64_json' },
  ],
  [image, 'a prompt of 1 code point', { prompt: '🗼' }],
  [image, 'a prompt of 4000 code points', { prompt: '🗼'.repeat(4000) }],
  [speech, 'the smallest body', {}],
  [speech, 'all options', { voice: 'bella', response_format: 'mp3', speed: 1 }],
  [speech, 'an input of 1 character', { input: '5' }],
  [speech, 'an input of 2000 code points', { input: `a${'🎵'.repeat(1999)}` }],
  [speech, 'speed 0.7', { speed: 0.7 }],
  [speech, 'speed 1.2', { speed: 1.2 }],
]
type Rejection = [operation: string, fields: object, code: string, param: string, message: RegExp]
const unstorable = /without lone surrogates and without U\+0000/
const textRefusals: Rejection[] = [chat, message].flatMap((operation): Rejection[] => [
  [operation, { model: undefined }, 'missing_field', 'model', /required/],
  [operation, { model: 'gpt-4' }, 'invalid_field', 'model', /one of "textmodel-3.6-flash", .*; got "gpt-4"/],
  [operation, { model: IMAGE_MODEL }, 'invalid_field', 'model', /one of/],
  [operation, { messages: undefined }, 'missing_field', 'messages', /required/],
  [operation, { messages: [] }, 'invalid_field', 'messages', /at least 1/],
  [operation, { messages: 'x' }, 'invalid_field', 'messages', /must be an array; got "x"/],
  [operation, { messages: ['x'] }, 'invalid_field', 'messages[0]', /must be an object/],
  [operation, { messages: [{ content: 'x' }] }, 'missing_field', 'messages[0].role', /required/],
  [operation, { messages: [{ role: 1, content: 'x' }] }, 'invalid_field', 'messages[0].role', /must be a string/],
  [operation, { messages: [{ role: 'user' }] }, 'missing_field', 'messages[0].content', /required/],
  [operation, userContent(null), 'invalid_field', 'messages[0].content', /a string or an array; got null/],
  [operation, userContent(5), 'invalid_field', 'messages[0].content', /a string or an array; got 5/],
  [operation, userContent({}), 'invalid_field', 'messages[0].content', /a string or an array; got an object/],
  [operation, userContent(['x']), 'invalid_field', 'messages[0].content[0]', /must be an object/],
  [operation, userContent([{}]), 'missing_field', 'messages[0].content[0].type', /required/],
  [
    operation,
    userContent([{ type: 'video' }]),
    'invalid_field',
    'messages[0].content[0].type',
    /must be one of "text", "image/,
  ],
  [operation, userContent([{ type: 'text' }]), 'missing_field', 'messages[0].content[0].text', /required/],
  [operation, { max_tokens: 0 }, 'invalid_field', 'max_tokens', /at least 1; got 0/],
  [operation, { max_tokens: 65_537 }, 'invalid_field', 'max_tokens', /at most 65536; got 65537/],
  [operation, { max_tokens: 1.5 }, 'invalid_field', 'max_tokens', /must be an integer/],
  [operation, { max_tokens: '16' }, 'invalid_field', 'max_tokens', /must be a/],
  [operation, { max_tokens: null }, 'invalid_field', 'max_tokens', /must be a/],
  [operation, { stream: true }, 'invalid_field', 'stream', /must be false; got true/],
  [operation, { stream: 'false' }, 'invalid_field', 'stream', /must be false/],
  [operation, { tools: {} }, 'invalid_field', 'tools', /must be an array/],
  [operation, userContent('\ud800'), 'invalid_field', 'messages[0].content', unstorable],
  [
    operation,
    userContent([{ type: 'text', text: 'a\0b' }]),
    'invalid_field',
    'messages[0].content[0].text',
    unstorable,
  ],
  [operation, { tools: [{ name: '\udc00' }] }, 'invalid_field', 'tools[0].name', unstorable],
  [operation, { metadata: { '\ud800': 1 } }, 'invalid_field', 'metadata.\ud800', unstorable],
])
const samplingRefusals: Rejection[] = [chat, message].flatMap((operation): Rejection[] => [
  [operation, { temperature: 'hot' }, 'invalid_field', 'temperature', /must be a number; got "hot"/],
  [operation, { temperature: 3 }, 'invalid_field', 'temperature', /at most 2; got 3/],
  [operation, { temperature: -0.1 }, 'invalid_field', 'temperature', /at least 0/],
  [operation, { top_p: 7 }, 'invalid_field', 'top_p', /at most 1; got 7/],
  [operation, { top_k: 1.5 }, 'invalid_field', 'top_k', /an integer/],
  [operation, { top_k: -2 }, 'invalid_field', 'top_k', /at least -1/],
  [operation, { seed: 1.5 }, 'invalid_field', 'seed', /an integer; got 1.5/],
  [operation, { seed: '7' }, 'invalid_field', 'seed', /must be a/],
  [operation, { seed: 2 ** 60 }, 'invalid_field', 'seed', /at most/],
  [operation, { presence_penalty: 2.1 }, 'invalid_field', 'presence_penalty', /at most 2/],
  [operation, { frequency_penalty: true }, 'invalid_field', 'frequency_penalty', /a number; got true/],
])
const left = /must be left out: .*; got /
const optionRefusals: Rejection[] = [
  [chat, { max_completion_tokens: 65_537 }, 'invalid_field', 'max_completion_tokens', /at most 65536; got 65537/],
  [chat, { max_completion_tokens: 128_000 }, 'invalid_field', 'max_completion_tokens', /at most 65536; got 128000/],
  [chat, { max_completion_tokens: '2048' }, 'invalid_field', 'max_completion_tokens', /must be a number; got "2048"/],
  [chat, { max_completion_tokens: 0 }, 'invalid_field', 'max_completion_tokens', /at least 1/],
  [chat, { max_tokens: 9, max_completion_tokens: 1.5 }, 'invalid_field', 'max_completion_tokens', /an integer/],
  [chat, { stop: 7 }, 'invalid_field', 'stop', /a string or an array of strings; got 7/],
  [chat, { stop: ['a', 7] }, 'invalid_field', 'stop', /a string or an array of strings/],
  [message, { stop_sequences: [1] }, 'invalid_field', 'stop_sequences', /a string or an array of strings/],
  [chat, { parallel_tool_calls: 'no' }, 'invalid_field', 'parallel_tool_calls', /a boolean/],
  [chat, { reasoning_effort: 'huge' }, 'invalid_field', 'reasoning_effort', /one of "none", .*; got "huge"/],
  [chat, { verbosity: 5 }, 'invalid_field', 'verbosity', /one of "low", "medium", "high"; got 5/],
  [
    chat,
    { logprobs: true },
    'invalid_field',
    'logprobs',
    /false or left out: log probabilities are not offered; got true/,
  ],
  [chat, { top_logprobs: 3 }, 'invalid_field', 'top_logprobs', left],
  [chat, { logit_bias: { 50256: -100 } }, 'invalid_field', 'logit_bias', left],
  [chat, { modalities: ['text', 'audio'] }, 'invalid_field', 'modalities', /\["text"\] or left out/],
  [chat, { audio: { voice: 'alloy', format: 'mp3' } }, 'invalid_field', 'audio', left],
  [chat, { prediction: { type: 'content', content: 'x' } }, 'invalid_field', 'prediction', left],
  [chat, { web_search_options: {} }, 'invalid_field', 'web_search_options', left],
  [chat, { store: true }, 'invalid_field', 'store', /must be false or left out/],
  [chat, { service_tier: 'priority' }, 'invalid_field', 'service_tier', /"auto", "default" or left out/],
  [message, { service_tier: 'priority' }, 'invalid_field', 'service_tier', /"auto", "standard_only" or left out/],
  [message, { thinking: { type: 'on' } }, 'invalid_field', 'thinking.type', /one of "enabled", .*; got "on"/],
  [message, { thinking: true }, 'invalid_field', 'thinking', /an object; got true/],
  [message, { thinking: { type: 'enabled' } }, 'missing_field', 'thinking.budget_tokens', /required/],
  [
    message,
    { thinking: { type: 'enabled', budget_tokens: 1023 } },
    'invalid_field',
    'thinking.budget_tokens',
    /at least 1024; got 1023/,
  ],
  [message, { output_config: 'json' }, 'invalid_field', 'output_config', /an object/],
  [message, { output_config: { effort: 'none' } }, 'invalid_field', 'output_config.effort', /one of "low"/],
  [message, { output_config: { task_budget: {} } }, 'invalid_field', 'output_config.task_budget', left],
  [message, { mcp_servers: [{ type: 'url' }] }, 'invalid_field', 'mcp_servers', left],
  [message, { container: 'container_1' }, 'invalid_field', 'container', left],
  [message, { context_management: { edits: [] } }, 'invalid_field', 'context_management', left],
  [message, { speed: 'fast' }, 'invalid_field', 'speed', /"standard" or left out/],
]
const imageUrl = 'messages[0].content[0].image_url.url'
const imageData = 'messages[0].content[0].source.data'
const rejected: Rejection[] = [
  ...textRefusals,
  ...samplingRefusals,
  ...optionRefusals,
  ...['http://example.com/a.png', 'ftp://example.com/a', 'file:///etc/passwd', 'example.com/a.png', ''].map(
    (url): Rejection => [chat, imagePart(url), 'invalid_field', imageUrl, /https URL or a Base64 data URI/],
  ),
  [chat, imagePart('https://me:secret@example.com/'), 'invalid_field', imageUrl, /user name or password/],
  [chat, imagePart('data:image/png,abc'), 'invalid_field', imageUrl, /data URI of type image\/png/],
  [chat, imagePart(dataUri(pngHead(8, 8), 'image/svg+xml')), 'invalid_field', imageUrl, /data URI of type image\/png/],
  [chat, imagePart(`${dataUri(pngHead(8, 8))}\n`), 'invalid_field', imageUrl, /canonical RFC 4648/],
  [chat, imagePart('data:image/png;base64,QR=='), 'invalid_field', imageUrl, /canonical RFC 4648/],
  [chat, imagePart('data:image/png;base64,'), 'invalid_field', imageUrl, /canonical RFC 4648/],
  [chat, imagePart('data:image/png;base64,AAAA'), 'invalid_field', imageUrl, /bytes of a PNG, JPEG, WebP or GIF/],
  [chat, imagePart(7), 'invalid_field', imageUrl, /must be a string/],
  [chat, userContent([{ type: 'image_url' }]), 'missing_field', 'messages[0].content[0].image_url', /required/],
  [chat, userContent([{ type: 'refusal' }]), 'missing_field', 'messages[0].content[0].refusal', /required/],
  [chat, userContent(null, { tool_calls: [] }), 'invalid_field', 'messages[0].content', /a string or an array/],
  ...(
    [
      [{ tool_calls: {} }, 'invalid_field', '', /must be an array/],
      [{ tool_calls: ['f'] }, 'invalid_field', '[0]', /must be an object/],
      [{ tool_calls: [{ id: 'a', type: 'function' }] }, 'invalid_field', '[0]', /must have "function" or "custom"/],
      [{ tool_calls: [{ id: 7, function: { name: 'f' } }] }, 'invalid_field', '[0].id', /must be a string; got 7/],
      [{ tool_calls: [{ function: 'f' }] }, 'invalid_field', '[0].function', /must be an object/],
      [{ tool_calls: [{ function: { arguments: '{}' } }] }, 'missing_field', '[0].function.name', /required/],
      [
        { tool_calls: [{ function: { name: 'f', arguments: {} } }] },
        'invalid_field',
        '[0].function.arguments',
        /string/,
      ],
      [{ tool_calls: [{ custom: { name: 'f', input: 5 } }] }, 'invalid_field', '[0].custom.input', /must be a string/],
    ] as const
  ).map(([fields, code, place, says]): Rejection => [
    chat,
    { messages: [...hello, { role: 'assistant', content: 'x', ...fields }] },
    code,
    `messages[1].tool_calls${place}`,
    says,
  ]),
  [
    chat,
    { messages: [...hello, { role: 'assistant', content: 'x', function_call: { name: 'f', arguments: {} } }] },
    'invalid_field',
    'messages[1].function_call.arguments',
    /must be a string; got an object/,
  ],
  [
    chat,
    { messages: [...hello, { role: 'tool', tool_call_id: 7, content: 'x' }] },
    'invalid_field',
    'messages[1].tool_call_id',
    /must be a string; got 7/,
  ],
  [message, { max_tokens: undefined }, 'missing_field', 'max_tokens', /required/],
  [message, { system: 5 }, 'invalid_field', 'system', /a string or an array; got 5/],
  [message, { system: [{ type: 'image' }] }, 'invalid_field', 'system[0].type', /must be "text"/],
  [message, { system: '\ud800' }, 'invalid_field', 'system', unstorable],
  [message, userContent([{ type: 'tool_use', name: 'f' }]), 'missing_field', 'messages[0].content[0].id', /required/],
  [
    message,
    userContent([{ type: 'tool_use', id: '1', name: 'f', input: 5 }]),
    'invalid_field',
    'messages[0].content[0].input',
    /must be/,
  ],
  [message, userContent([{ type: 'tool_result' }]), 'missing_field', 'messages[0].content[0].tool_use_id', /required/],
  [
    message,
    userContent([{ type: 'tool_result', tool_use_id: '1', content: [{ type: 'document' }] }]),
    'invalid_field',
    'messages[0].content[0].content[0].type',
    /one of "text", "image"/,
  ],
  [message, imageBlock({ type: 'file' }), 'invalid_field', 'messages[0].content[0].source.type', /"base64" or "url"/],
  [
    message,
    imageBlock({ type: 'base64', media_type: 'image/bmp', data: base64Png }),
    'invalid_field',
    'messages[0].content[0].source.media_type',
    /one of "image\/png"/,
  ],
  [
    message,
    imageBlock({ type: 'base64', media_type: 'image/png', data: 'QR==' }),
    'invalid_field',
    imageData,
    /canonical/,
  ],
  [
    message,
    imageBlock({ type: 'base64', media_type: 'image/png', data: 'AAAA' }),
    'invalid_field',
    imageData,
    /bytes of a/,
  ],
  [
    message,
    imageBlock({ type: 'url', url: 'http://example.com' }),
    'invalid_field',
    'messages[0].content[0].source.url',
    /https/,
  ],
  [image, { model: undefined }, 'missing_field', 'model', /required/],
  [image, { model: TEXT_MODEL }, 'invalid_field', 'model', /must be "textmodel-3.1-flash-lite-image"/],
  [image, { prompt: undefined }, 'missing_field', 'prompt', /required/],
  [image, { prompt: 5 }, 'invalid_field', 'prompt', /must be a string/],
  [image, { prompt: '' }, 'invalid_field', 'prompt', /at least 1 characters/],
  [image, { prompt: '🗼'.repeat(4001) }, 'invalid_field', 'prompt', /at most 4000 characters/],
  [image, { prompt: '\ud800' }, 'invalid_field', 'prompt', unstorable],
  ...[0, 2, 1.5, '1', null].map((n): Rejection => [image, { n }, 'invalid_field', 'n', /must be 1/]),
  [image, { image_size: '2K' }, 'invalid_field', 'image_size', /must be "1K"/],
  [image, { aspect_ratio: '16:9' }, 'invalid_field', 'aspect_ratio', /must be "1:1"/],
  [image, { size: '512x512' }, 'invalid_field', 'size', /must be "1024x1024"/],
  [image, { response_format: 'png' }, 'invalid_field', 'response_format', /one of "url", "b64_json"/],
  [image, { quality: 'hd' }, 'unknown_field', 'quality', /not a field/],
  [speech, { model: undefined }, 'missing_field', 'model', /required/],
  [speech, { model: 'tts-1' }, 'invalid_field', 'model', /must be "speechvendor\/flash-v2.5"/],
  [speech, { input: undefined }, 'missing_field', 'input', /required/],
  [speech, { input: 5 }, 'invalid_field', 'input', /must be a string/],
  [speech, { input: '' }, 'invalid_field', 'input', /at least 1 characters/],
  [speech, { input: `a${'🎵'.repeat(2000)}` }, 'invalid_field', 'input', /at most 2000 characters/],
  ...[' ', '…', '🎵', '\n\t', '!?'].map((input): Rejection => [
    speech,
    { input },
    'invalid_field',
    'input',
    /at least one letter or number/,
  ]),
  [speech, { input: 'a\ud800' }, 'invalid_field', 'input', unstorable],
  [speech, { input: 'a\0' }, 'invalid_field', 'input', unstorable],
  [speech, { voice: 'alloy' }, 'invalid_field', 'voice', /one of "darian"/],
  [speech, { response_format: 'wav' }, 'invalid_field', 'response_format', /must be "mp3"/],
  [speech, { speed: 0.699 }, 'invalid_field', 'speed', /at least 0.7; got 0.699/],
  [speech, { speed: 1.201 }, 'invalid_field', 'speed', /at most 1.2; got 1.201/],
  [speech, { speed: 0.7005 }, 'invalid_field', 'speed', /multiple of 0.001; got 0.7005/],
  [speech, { speed: '1' }, 'invalid_field', 'speed', /must be a number/],
  [speech, { speed: null }, 'invalid_field', 'speed', /must be a number/],
  [speech, { instructions: 'x' }, 'unknown_field', 'instructions', /not a field/],
]
/** Returns speeds as callers write them, `0.700` to `1.200`, with `suffix` after the last digit. */
function speedTexts(suffix: string): string[] {
  return Array.from({ length: 501 }, (_, index) => {
    const thousandths = 700 + index
    return `${Math.floor(thousandths / 1000)}.${String(thousandths % 1000).padStart(3, '0')}${suffix}`
  })
}
function rejectedSpeeds(texts: readonly string[]): string[] {
  return texts.filter((text) => fieldFault(speech, { ...bodies[speech], speed: JSON.parse(text) as number }) !== null)
}
/** The definition: canonical is what decodes and encodes back to itself. */
function isCanonical(text: string): boolean {
  return text !== '' && Buffer.from(text, 'base64').toString('base64') === text
}
/** Around the size of a slice, where one that were decoded with a wrong border would lose or repeat bytes. */
const byteCounts = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 12_280, max: 12_296 }))
const canonical = byteCounts.chain((length) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes).toString('base64')),
)
/** Characters that decoders take for others, skip, or stop at. */
const suspicious = fc.constantFrom('-', '_', '=', '==', ' ', '\n', '\0', '+', '/', 'A', '"', '\\', 'é', 'Ł', '字')

describe('rules of the fields', () => {
  test.each(accepted)('%s accepts %s', (operation, _what, fields) => {
    expect(fieldFault(operation, { ...bodies[operation], ...fields })).toBeNull()
  })

  test.each(rejected)('%s rejects %j [spec O29]', (operation, fields, code, param, message) => {
    const fault = fieldFault(operation, { ...bodies[operation], ...fields })
    expect(fault).toMatchObject({ code, param })
    expect(fault?.message).toMatch(message)
  })

  test('accepts every speed from 0.700 to 1.200 in steps of 0.001, and nothing in between [spec E53]', () => {
    expect(rejectedSpeeds(speedTexts(''))).toEqual([])
    for (const suffix of ['5', '1', '9', '0000001'])
      expect(rejectedSpeeds(speedTexts(suffix))).toEqual(speedTexts(suffix))
  })
})

describe('decoding canonical Base64', () => {
  it('decodes every canonical text to its bytes, as a string and as bytes', () => {
    fc.assert(
      fc.property(canonical, (text) => {
        const expected = Buffer.from(text, 'base64')
        expect(decodeCanonicalBase64(text)?.equals(expected)).toBe(true)
        expect(decodeCanonicalBase64(Buffer.from(text))?.equals(expected)).toBe(true)
      }),
    )
  })

  it('refuses exactly the texts that do not encode back to themselves, wherever they are changed', () => {
    fc.assert(
      fc.property(canonical, suspicious, fc.nat(), fc.boolean(), (text, inserted, place, replaces) => {
        const at = place % (text.length + 1)
        const changed = text.slice(0, at) + inserted + text.slice(replaces ? at + inserted.length : at)
        expect(decodeCanonicalBase64(changed) !== null).toBe(isCanonical(changed))
        expect(decodeCanonicalBase64(Buffer.from(changed)) !== null).toBe(isCanonical(changed))
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    '',
    'A',
    'AA',
    'AAA',
    'AA=',
    'A===',
    '====',
    'AB==',
    'AAB=',
    'AA==AAAA',
    'AAAA\n',
    'AAA-',
    'ŁAAA',
    'AAAA=AAA',
  ])('refuses %j', (text) => {
    expect(isCanonical(text)).toBe(false)
    expect(decodeCanonicalBase64(text)).toBeNull()
    expect(decodeCanonicalBase64(Buffer.from(text))).toBeNull()
  })
})
