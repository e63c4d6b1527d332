import { describe, expect, test } from 'vitest'
import {
  atomicOf,
  describeFields,
  describeJsonBody,
  NOT_TEXT,
  rejectedWith,
  useJsonEndpoint,
} from '../../support/http/json-endpoint.ts'

const MODEL = 'speechvendor/flash-v2.5'

const endpoint = useJsonEndpoint({
  path: '/v1/audio/speech',
  family: 'openai',
  bounds: ['0.002', '0.441'],
  valid: { model: MODEL, input: 'The last tram leaves at midnight.' },
})

const VOICES = [
  'darian',
  'talia',
  'elara',
  'baxter',
  'eldrin',
  'kellan',
  'elowen',
  'kaelen',
  'lawrence',
  'alicia',
  'maisie',
  'warren',
  'jade',
  'eddie',
  'caleb',
  'sawyer',
  'finley',
  'florence',
  'wyatt',
  'bella',
]

describeFields(endpoint, [
  {
    name: 'model',
    title: 'model [spec E48]',
    required: true,
    accepted: [MODEL],
    refused: rejectedWith(
      MODEL,
      'speechvendor/flash-v2',
      'speechvendor/scribe-v2',
      'tts-1',
      MODEL.toUpperCase(),
      `${MODEL} `,
      '',
      5,
      null,
      [MODEL],
    ),
  },
  {
    name: 'input',
    title: 'input [spec E49, B9]',
    required: true,
    accepted: [
      'a',
      '7',
      'é',
      '字',
      '٣',
      '𝒜',
      'x'.repeat(1999),
      'x'.repeat(2000),
      '𝒜'.repeat(2000),
      `a${'😀'.repeat(1999)}`,
    ],
    refused: [
      ...NOT_TEXT,
      ['', 'at least 1 character'],
      ['x'.repeat(2001), 'at most 2000 characters'],
      ['𝒜'.repeat(2001), 'at most 2000 characters'],
      [`${'😀'.repeat(1000)}${'x'.repeat(1001)}`, 'at most 2000 characters'],
      ['x'.repeat(100_000), 'at most 2000 characters'],
      ['a\ud800', 'surrogate'],
      ['\udc00\ud800a', 'surrogate'],
      ...rejectedWith(
        'letter or number',
        ' ',
        '\n\t',
        '…',
        '!?',
        '😀',
        '🎉🎉',
        '\u200b',
        '— ‘ ’ —',
        '\u00a0',
        '\u0301',
      ),
    ],
  },
  {
    name: 'voice',
    title: 'voice [spec E50]',
    accepted: VOICES,
    refused: rejectedWith(
      '"darian", "talia"',
      'alloy',
      'Darian',
      'darian ',
      'rachel',
      '',
      '21m00Tcm4TlvDq8ikWAM',
      5,
      null,
      ['jade'],
    ),
  },
  {
    name: 'response_format',
    title: 'response_format [spec E51, B11]',
    accepted: ['mp3'],
    refused: rejectedWith('must be "mp3"', 'wav', 'opus', 'aac', 'flac', 'pcm', 'MP3', 'mp3 ', '', 5, null, ['mp3']),
  },
  {
    name: 'speed',
    title: 'speed [spec E52, B10]',
    // Several of these are not multiples of 0.001 in binary floating point.
    accepted: [0.7, 0.701, 0.703, 0.729, 0.9, 0.999, 1, 1.001, 1.003, 1.009, 1.1, 1.119, 1.199, 1.2],
    refused: [
      ...rejectedWith('at least 0.7', 0.699, 0.6999999, 0.25, 0, -1),
      ...rejectedWith('at most 1.2', 1.201, 1.2000001, 4, 1e300),
      ...rejectedWith('multiple of 0.001', 0.7005, 0.7001, 0.9999, 1.0005, 1.00001, 1.19999, 0.700000001),
      ...rejectedWith('must be a number', '1', '', true, null, [1], {}),
    ],
  },
])

describe('unknown properties [spec S10c, E54]', () => {
  test.each([
    'instructions',
    'stream_format',
    'stream',
    'language',
    'temperature',
    'Input',
    'voice ',
    '',
    'constructor',
    'toString',
    '__proto__',
  ])('rejects the unknown property %j', async (name) => {
    const body = `${JSON.stringify(endpoint.valid).slice(0, -1)},${JSON.stringify(name)}:1}`
    await endpoint.expectRefused(body, { code: 'unknown_field', param: name, says: [name] })
  })
})

test.each([
  ['x', 1],
  ['x', 10],
  ['x', 1000],
  ['x', 2000],
  ['𝒜', 1000],
])('prices the input by code points: %s, %d times', async (character, count) => {
  // 0.2205 USD per thousand characters, at least 0.002.
  const expected = BigInt(Math.max(Math.ceil(count * 220.5), 2000))
  expect(await endpoint.expectChallenged(endpoint.bodyWith({ input: character.repeat(count) }))).toBe(expected)
  expect(expected).toBeLessThanOrEqual(atomicOf('0.441'))
})

describeJsonBody(endpoint, {
  same: {
    'the default voice': { voice: 'darian' },
    'every default spelled out': { voice: 'darian', response_format: 'mp3', speed: 1 },
  },
  other: {
    input: { input: 'The first tram leaves at five.' },
    voice: { voice: 'jade' },
    speed: { speed: 1.001 },
  },
})

endpoint.testNothingHappened(110)
