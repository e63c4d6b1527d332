import { describe, expect, test } from 'vitest'
import {
  atomicOf,
  describeFields,
  describeJsonBody,
  NOT_TEXT,
  rejectedWith,
  useJsonEndpoint,
} from '../../support/http/json-endpoint.ts'

const MODEL = 'textmodel-3.1-flash-lite-image'

const endpoint = useJsonEndpoint({
  path: '/v1/images/generations',
  family: 'openai',
  bounds: ['0.035', '0.035'],
  valid: { model: MODEL, prompt: 'A tram at night' },
})

describeFields(endpoint, [
  {
    name: 'model',
    title: 'model [spec E34]',
    required: true,
    accepted: [MODEL],
    refused: rejectedWith(
      MODEL,
      'textmodel-2.5-pro',
      'speechvendor/flash-v2.5',
      'dall-e-3',
      MODEL.toUpperCase(),
      `${MODEL} `,
      '',
      5,
      null,
      [MODEL],
    ),
  },
  {
    name: 'prompt',
    title: 'prompt [spec E35, B4]',
    required: true,
    accepted: ['a', ' ', '😀', 'x'.repeat(3999), 'x'.repeat(4000), '😀'.repeat(4000), 'é\u0301'.repeat(2000)],
    refused: [
      ...NOT_TEXT,
      ['', 'at least 1 character'],
      ['x'.repeat(4001), 'at most 4000 characters'],
      ['😀'.repeat(4001), 'at most 4000 characters'],
      [`${'😀'.repeat(2000)}${'x'.repeat(2001)}`, 'at most 4000 characters'],
      ['x'.repeat(100_000), 'at most 4000 characters'],
      ['\ud83d', 'surrogate'],
      ['\ude00\ud83d', 'surrogate'],
      [`${'x'.repeat(10)}\udc00`, 'surrogate'],
    ],
  },
  {
    name: 'n',
    title: 'n [spec E36, B5]',
    accepted: [1],
    refused: rejectedWith('must be 1', 0, 2, 10, -1, 1.5, '1', true, null, [1], {}),
  },
  {
    name: 'image_size',
    title: 'image_size [spec E37, B6]',
    accepted: ['1K'],
    refused: rejectedWith('must be "1K"', '1k', '2K', '4K', '1024x1024', '', 1, null, ['1K']),
  },
  {
    name: 'aspect_ratio',
    title: 'aspect_ratio [spec E38, B7]',
    accepted: ['1:1'],
    refused: rejectedWith('must be "1:1"', '16:9', '9:16', '1:1 ', '1', '', 1, null, ['1:1']),
  },
  {
    name: 'size',
    title: 'size [spec E39]',
    accepted: ['1024x1024'],
    refused: rejectedWith('must be "1024x1024"', '512x512', '1024X1024', '1024x1792', 'auto', '1K', '', 1024, null),
  },
  {
    name: 'response_format',
    title: 'response_format [spec E40]',
    accepted: ['url', 'b64_json'],
    refused: rejectedWith('"url", "b64_json"', 'b64', 'URL', 'json', '', 5, null, ['url'], { type: 'url' }),
  },
])

describe('unknown properties [spec S10b, E41]', () => {
  test.each([
    'quality',
    'style',
    'user',
    'background',
    'output_format',
    'stream',
    'temperature',
    'Prompt',
    'prompt ',
    '',
    'constructor',
    'toString',
    '__proto__',
  ])('rejects the unknown property %j', async (name) => {
    const body = `${JSON.stringify(endpoint.valid).slice(0, -1)},${JSON.stringify(name)}:1}`
    await endpoint.expectRefused(body, { code: 'unknown_field', param: name, says: [name] })
  })
})

test('quotes the fixed price for any prompt and format [spec E33]', async () => {
  const bodies = [{}, { prompt: 'x'.repeat(4000) }, { response_format: 'b64_json' }, { size: '1024x1024', n: 1 }]
  for (const changes of bodies)
    expect(await endpoint.expectChallenged(endpoint.bodyWith(changes))).toBe(atomicOf('0.035'))
})

describeJsonBody(endpoint, {
  same: {
    'n spelled out': { n: 1 },
    'every default spelled out': { n: 1, image_size: '1K', aspect_ratio: '1:1', response_format: 'url' },
    'the deprecated size': { size: '1024x1024' },
    'size next to its equivalents': { size: '1024x1024', image_size: '1K', aspect_ratio: '1:1' },
  },
  other: { prompt: { prompt: 'A tram at noon' }, response_format: { response_format: 'b64_json' } },
})

endpoint.testNothingHappened(100)
