import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ErrorBody, type ExpectedRefusal, expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { sendRaw } from '../../support/http/raw-request.ts'
import { generateFrames, generateMp3, joinBytes } from '../../support/media/mp3-generator.ts'
import { runAdvised } from '../../support/media/run-advised.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PATH = '/v1/audio/transcriptions'
const MODEL = 'speechvendor/scribe-v2'
const MAXIMUM_AUDIO_BYTES = 26_214_400
const MAXIMUM_BASE64_LENGTH = 34_952_536

const mp3 = generateMp3({ durationMs: 400, seed: 'transcription-input' })
const base64 = Buffer.from(mp3).toString('base64')

/** A whole request body: a form or any bytes, with its content type (`null` sends none). */
interface SentBody {
  readonly body: Uint8Array
  readonly contentType: string | null
}

let sandbox: SharedSandbox
const refusedKeys: string[] = []
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

function json(value: unknown): SentBody {
  return text(JSON.stringify(value))
}

function text(body: string | Uint8Array, contentType: string | null = 'application/json'): SentBody {
  return { body: Buffer.from(body), contentType }
}

function form(...parts: readonly FormPart[]): SentBody {
  return { body: multipartBody(parts), contentType: MULTIPART_CONTENT_TYPE }
}

function field(name: string, value: string | Uint8Array): FormPart {
  return { name, value }
}

function file(value: Uint8Array = mp3, more: Partial<FormPart> = {}): FormPart {
  return { name: 'file', value, fileName: 'speech.mp3', contentType: 'audio/mpeg', ...more }
}

const modelField = field('model', MODEL)

/** Returns a valid JSON body with `changes`; `undefined` leaves a field out. */
function jsonWith(changes: Record<string, unknown>): SentBody {
  return json({ model: MODEL, audio_base64: base64, ...changes })
}

/** Returns a valid form whose field `name` has this text; `undefined` leaves it out. */
function formWith(name: string, value: string | undefined): SentBody {
  const options = name === 'model' ? [] : [modelField]
  return form(...options, ...(value === undefined ? [] : [field(name, value)]), file())
}

function send({ body, contentType }: SentBody, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${sandbox.info.baseUrl}${PATH}`, {
    method: 'POST',
    headers: {
      'x-idempotency-key': randomUUID(),
      ...(contentType === null ? {} : { 'content-type': contentType }),
      ...headers,
    },
    body: new Uint8Array(body),
  })
}

/** Asks for the price of a recording that is described. */
function quoteOf(audio: Uint8Array, durationMs: number): Promise<Response> {
  const sha256 = createHash('sha256').update(audio).digest('hex')
  const request = { model: MODEL, audio: { sha256, bytes: audio.length, duration_ms: durationMs } }
  return fetch(`${sandbox.info.baseUrl}/v1/quotes`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ operation: 'createTranscription', request }),
  })
}

async function expectRefused(sent: SentBody, expected: Omit<ExpectedRefusal, 'status'> & { status?: number }) {
  const idempotencyKey = randomUUID()
  refusedKeys.push(idempotencyKey)
  const answer = await send(sent, { 'x-idempotency-key': idempotencyKey })
  await expectNeverRetry(answer, { status: 400, ...expected })
}

async function expectChallenged(sent: SentBody, headers: Record<string, string> = {}): Promise<Response> {
  const answer = await send(sent, headers)
  expect({ status: answer.status, body: answer.status === 402 ? '' : await answer.text() }).toEqual({
    status: 402,
    body: '',
  })
  return answer
}

interface OptionRules {
  readonly name: string
  /** Title of the option's cases; by default its name. */
  readonly title?: string
  /** Accepted values, as JSON and as form text. */
  readonly accepted: readonly (readonly [json: unknown, form: string])[]
  /** Values refused in JSON, each with a text that the message must contain in addition to the field. */
  readonly refusedJson: readonly (readonly [unknown, string])[]
  readonly refusedForm: readonly (readonly [string, string])[]
}

const notAString = [5, true, null, ['x'], { x: 1 }].map((value) => [value, 'string'] as const)
const booleanRules = {
  accepted: [
    [true, 'true'],
    [false, 'false'],
  ],
  refusedJson: ['true', 'false', 1, 0, null, [], {}, ''].map((value) => [value, 'boolean'] as const),
  refusedForm: ['1', '0', 'True', 'FALSE', 'yes', 'on', 'null', '', ' true'].map(
    (value) => [value, 'boolean'] as const,
  ),
} as const

const optionRules: readonly OptionRules[] = [
  {
    name: 'model',
    title: 'model [spec E62]',
    accepted: [[MODEL, MODEL]],
    refusedJson: [
      'speechvendor/scribe-v1',
      'SPEECHVENDOR/SCRIBE-V2',
      `${MODEL} `,
      'whisper-1',
      '',
      5,
      true,
      null,
      [MODEL],
      {},
    ].map((value) => [value, MODEL] as const),
    refusedForm: ['speechvendor/scribe-v1', 'SPEECHVENDOR/SCRIBE-V2', `${MODEL} `, ''].map(
      (value) => [value, MODEL] as const,
    ),
  },
  {
    name: 'file_format',
    title: 'file_format [spec E63]',
    accepted: [['other', 'other']],
    refusedJson: ['pcm_s16le_16', 'mp3', 'Other', '', 5, null, ['other']].map((value) => [value, '"other"'] as const),
    refusedForm: ['pcm_s16le_16', 'mp3', 'Other', ''].map((value) => [value, '"other"'] as const),
  },
  {
    name: 'language',
    title: 'language [spec E64]',
    accepted: [
      ['en', 'en'],
      ['pt-BR', 'pt-BR'],
      ['😀'.repeat(40), '😀'.repeat(40)],
    ],
    refusedJson: [
      ...notAString,
      ['\ud800', 'surrogate'],
      ['en\udc00', 'surrogate'],
      ['en\0', 'control'],
      ['e\nn', 'control'],
      ['x'.repeat(65), '64'],
    ],
    refusedForm: [
      ['en\0', 'control'],
      ['e\nn', 'control'],
    ],
  },
  { name: 'diarize', title: 'diarize [spec E65]', ...booleanRules },
  {
    name: 'num_speakers',
    title: 'num_speakers [spec E66, B17]',
    accepted: [
      [1, '1'],
      [2, '2'],
      [32, '32'],
    ],
    refusedJson: [
      [0, '1'],
      [-1, '1'],
      [33, '32'],
      [2 ** 53, '32'],
      [1e300, '32'],
      [1.5, 'integer'],
      ['2', 'number'],
      ['', 'number'],
      [true, 'number'],
      [null, 'number'],
      [[2], 'number'],
      [{}, 'number'],
    ],
    refusedForm: [
      ['0', '1'],
      ['-1', '1'],
      ['33', '32'],
      ['9'.repeat(30), '32'],
      ['1.5', 'integer'],
      ['', 'number'],
      ['two', 'number'],
      [' 2', 'number'],
      ['2 ', 'number'],
      ['+2', 'number'],
      ['0x2', 'number'],
      ['1e1', 'number'],
      ['٢', 'number'],
    ],
  },
  {
    name: 'timestamps',
    title: 'timestamps [spec E67]',
    accepted: ['none', 'word', 'character'].map((value) => [value, value] as const),
    refusedJson: ['words', 'segment', 'None', '', 5, true, null, ['word']].map(
      (value) => [value, '"none", "word", "character"'] as const,
    ),
    refusedForm: ['words', 'segment', 'None', ''].map((value) => [value, '"none", "word", "character"'] as const),
  },
  { name: 'tag_audio_events', title: 'tag_audio_events [spec E68]', ...booleanRules },
  {
    name: 'response_format',
    title: 'response_format [spec E69]',
    accepted: ['json', 'verbose_json'].map((value) => [value, value] as const),
    refusedJson: [
      ...['text', 'srt', 'vtt', 'JSON', '', 5, null, ['json']].map(
        (value) => [value, '"json", "verbose_json"'] as const,
      ),
      ['srt', 'send timestamps "word"'],
      ['vtt', 'as the client command "farebox transcribe" does'],
      ['text', 'text of the JSON answer'],
    ],
    refusedForm: [
      ...['text', 'srt', 'vtt', 'JSON', ''].map((value) => [value, '"json", "verbose_json"'] as const),
      ['vtt', 'send timestamps "word"'],
    ],
  },
]

describe.each(optionRules.map((rule) => ({ title: rule.name, ...rule })))(
  '$title',
  ({ name, accepted, refusedJson, refusedForm }) => {
    test.each(accepted)('accepts %j in JSON and %s in a form', async (value, formText) => {
      await expectChallenged(jsonWith({ [name]: value }))
      await expectChallenged(formWith(name, formText))
    })
    test.each(refusedJson)('rejects %j in JSON', async (value, says) => {
      await expectRefused(jsonWith({ [name]: value }), { code: 'invalid_field', param: name, says: [name, says] })
    })
    test.each(refusedForm)('rejects the text "%s" in a form', async (value, says) => {
      await expectRefused(formWith(name, value), { code: 'invalid_field', param: name, says: [name, says] })
    })
  },
)

const missingField = (param: string, what = 'required') => ({
  code: 'missing_field',
  param,
  says: [param, 'required', what],
})

const duplicateField = (param: string) => ({ code: 'duplicate_field', param, says: [param] })

const zeros = (length: number) => new Uint8Array(length)

const headOf = (contentType: string): [string, string][] => [
  ['x-idempotency-key', randomUUID()],
  ['content-type', contentType],
]

const chunk = (data: string) => Buffer.from(`${data.length.toString(16)}\r\n${data}\r\n`)

function* endless(first: string, piece: string) {
  yield chunk(first)
  for (;;) yield chunk(piece.repeat(65_536 / piece.length))
}

describe('required fields [spec E71]', () => {
  test.each([
    ['model in JSON', jsonWith({ model: undefined }), 'model'],
    ['model in a form', formWith('model', undefined), 'model'],
    ['audio_base64 in JSON', jsonWith({ audio_base64: undefined }), 'audio_base64', 'the MP3 as Base64'],
    ['file in a form', form(modelField), 'file', 'a file part'],
    ['all fields of an empty object', json({}), 'model'],
    ['all fields of an empty form', form(), 'model'],
  ])('rejects a request without %s', async (_, sent, param, what?: string) => {
    await expectRefused(sent, missingField(param, what))
  })
})

describe('unknown fields [spec S10d, E72]', () => {
  const names = [
    'temperature',
    'stream',
    'prompt',
    'Model',
    'model ',
    '',
    'audio',
    'constructor',
    'toString',
    '__proto__',
  ]
  test.each(names)('rejects the unknown field %j in JSON', async (name) => {
    const body = `{"model":${JSON.stringify(MODEL)},"audio_base64":"${base64}",${JSON.stringify(name)}:{"a":1}}`
    await expectRefused(text(body), { code: 'unknown_field', param: name, says: [name] })
  })
  const inherited = ['constructor', 'toString', '__proto__']
  test.each(inherited)(
    'rejects the unknown field %j in a form, whose parser does not report its name',
    async (name) => {
      await expectRefused(formWith(name, '1'), { code: 'unknown_field', param: null })
    },
  )
  test.each(names.filter((name) => name !== '' && !inherited.includes(name)))(
    'rejects the unknown field %j in a form',
    async (name) => {
      await expectRefused(formWith(name, '1'), { code: 'unknown_field', param: name, says: [name] })
    },
  )
  test.each([
    ['timestamp_granularities[]', 'send timestamps "word"'],
    ['stream', 'the transcript is sent as a whole'],
    ['prompt', 'takes no prompt'],
    ['chunking_strategy', 'Leave it out'],
    ['known_speaker_names[]', 'diarize true'],
    ['language_code', 'in language'],
    ['url', 'URLs are not fetched'],
  ])('says what to send instead of %s, an option of other services', async (name, advice) => {
    const expected = { code: 'unknown_field', param: name, says: [advice] }
    await expectRefused(jsonWith({ [name]: ['x'] }), expected)
    await expectRefused(formWith(name, 'x'), expected)
  })
  test('rejects the form’s field file in JSON, and names audio_base64', async () => {
    const expected = { code: 'unknown_field', param: 'file', says: ['file', 'Base64 in audio_base64'] }
    await expectRefused(jsonWith({ file: base64 }), expected)
    await expectRefused(json({ model: MODEL, file: base64 }), expected)
  })
  test('rejects the JSON field audio_base64 in a form, and names its file part', async () => {
    const expected = { code: 'unknown_field', param: 'audio_base64', says: ['audio_base64', 'the file part "file"'] }
    await expectRefused(form(modelField, field('audio_base64', 'AAAA'), file()), expected)
    await expectRefused(form(modelField, field('audio_base64', 'AAAA')), expected)
  })
  test('rejects a file under another name, even when much more of the form follows', async () => {
    const expected = { code: 'unknown_field', param: 'audio', says: ['audio', 'Name the file part "file"'] }
    await expectRefused(form(modelField, file(mp3, { name: 'audio' })), expected)
    await expectRefused(form(file(new Uint8Array(3_000_000), { name: 'audio' }), modelField, file()), expected)
  })
})

describe('repeated fields [spec B16]', () => {
  test.each([
    ['an equal option', form(modelField, modelField, file()), 'model'],
    ['a different option', form(modelField, field('language', 'en'), field('language', 'de'), file()), 'language'],
    ['a second file', form(modelField, file(), file()), 'file'],
    ['a second, large file', form(modelField, file(), file(new Uint8Array(3_000_000))), 'file'],
    ['a third file', form(modelField, file(), file(), file()), 'file'],
  ])('rejects a repeated field in a form: %s', async (_, sent, param) => {
    await expectRefused(sent, duplicateField(param))
  })
  test.each([
    ['an equal option', `{"model":"${MODEL}","model":"${MODEL}","audio_base64":"${base64}"}`, 'model'],
    ['a different option', `{"model":"${MODEL}","diarize":true,"audio_base64":"${base64}","diarize":false}`, 'diarize'],
    ['an option spelled with an escape', `{"model":"x","mod\\u0065l":"${MODEL}","audio_base64":"${base64}"}`, 'model'],
    ['a second upload', `{"model":"${MODEL}","audio_base64":"AAAA","audio_base64":"${base64}"}`, 'audio_base64'],
  ])('rejects a repeated field in JSON: %s', async (_, body, param) => {
    await expectRefused(text(body), duplicateField(param))
  })
})

describe('audio_base64 [spec E61]', () => {
  test.each([5, true, null, [base64], { data: base64 }])(
    'rejects an audio_base64 that is not a string: %j',
    async (value) => {
      await expectRefused(jsonWith({ audio_base64: value }), {
        code: 'invalid_field',
        param: 'audio_base64',
        says: ['audio_base64', 'string'],
      })
    },
  )
  const unpadded = base64.replace(/=+$/, '')
  const oneShort = Buffer.from(mp3.subarray(0, mp3.length - (mp3.length % 3) - 2)).toString('base64')
  test.each([
    ['that is empty', ''],
    ['of three characters', 'AAA'],
    ['without its padding', oneShort.replace(/=+$/, ''), 'Pad it with ='],
    ['with too much padding', `${unpadded}====`],
    ['with stray bits in the last character', 'QR=='],
    ['with stray bits before a single pad', 'QUJ='.replace('J', 'K')],
    ['with padding inside', `QQ==${base64}`],
    ['with a line break', `${base64.slice(0, 76)}\n${base64.slice(76)}`, 'base64 -w0 < input.mp3'],
    ['with a leading space', ` ${base64}`],
    ['with a trailing line feed', `${base64}\n`],
    ['that is a data URL', `data:audio/mpeg;base64,${base64}`, 'only what follows its comma'],
    ['in the URL-safe alphabet', Buffer.from(Buffer.alloc(300, 0xfb)).toString('base64url'), 'with + and /'],
    ['with a letter outside the alphabet', `é${base64.slice(1)}`, 'base64 -w0 < input.mp3'],
    ['with a NUL', `\0${base64.slice(1)}`],
    ['of padding only', '===='],
  ])('rejects an audio_base64 %s', async (_, value, advice = '') => {
    await expectRefused(jsonWith({ audio_base64: value }), {
      code: 'invalid_base64',
      param: 'audio_base64',
      says: ['audio_base64', advice],
    })
  })
  test('names a command that writes Base64 as it is accepted', async () => {
    const answer = await send(jsonWith({ audio_base64: base64.replace(/.{76}/g, '$&\n') }))
    const { error } = (await answer.json()) as ErrorBody
    const [encoded] = await runAdvised(error.message, { 'input.mp3': mp3 })
    await expectChallenged(jsonWith({ audio_base64: String(encoded) }))
  })
  test('rejects an audio_base64 of fewer than four characters [spec B15]', async () => {
    await expectRefused(jsonWith({ audio_base64: 'AAA' }), {
      code: 'invalid_base64',
      param: 'audio_base64',
      says: ['audio_base64', '4'],
    })
    // Four characters are valid Base64, but three bytes are not an MP3.
    await expectRefused(jsonWith({ audio_base64: 'AAAA' }), { code: 'unsupported_audio', param: 'audio_base64' })
  })
})

describe('the upload’s size and duration', () => {
  // 128 kbit/s at 32 kHz: frames of 576 bytes. The rest of the 26,214,400 bytes is a partial last frame, which is
  // tolerated.
  const largest = new Uint8Array(MAXIMUM_AUDIO_BYTES)
  largest.set(generateFrames(Math.floor(MAXIMUM_AUDIO_BYTES / 576), { sampleRate: 32_000 }, 'largest'))
  const tooLarge = new Uint8Array(MAXIMUM_AUDIO_BYTES + 1)
  tooLarge.set(largest)

  test('rejects 26,214,401 bytes as audio_too_large in JSON and in a form [spec O32]', async () => {
    await expectRefused(form(file(tooLarge), modelField), {
      code: 'audio_too_large',
      param: 'file',
      says: ['file', '26,214,400'],
    })
    const encoded = Buffer.from(tooLarge).toString('base64')
    expect(encoded).toHaveLength(MAXIMUM_BASE64_LENGTH)
    await expectRefused(jsonWith({ audio_base64: encoded }), {
      code: 'audio_too_large',
      param: 'audio_base64',
      says: ['audio', '26,214,400'],
    })
  })
  test.each([
    [1, 27],
    [2, 53],
    [3, 79],
  ])('rejects %i frames, %i ms, as audio_too_short in JSON, in a form and described', async (frames, durationMs) => {
    const short = generateFrames(frames)
    const expected = { code: 'audio_too_short', says: [`${durationMs} ms`, '100 ms'] }
    await expectRefused(form(file(short), modelField), { ...expected, param: 'file' })
    const encoded = Buffer.from(short).toString('base64')
    await expectRefused(jsonWith({ audio_base64: encoded }), { ...expected, param: 'audio_base64' })
    const described = await quoteOf(short, durationMs)
    await expectNeverRetry(described, { status: 400, ...expected, param: 'audio.duration_ms' })
  })

  test('prices four frames, 105 ms, in JSON, in a form and described', async () => {
    const enough = generateFrames(4)
    await expectChallenged(form(file(enough), modelField))
    await expectChallenged(jsonWith({ audio_base64: Buffer.from(enough).toString('base64') }))
    expect((await quoteOf(enough, 105)).status).toBe(200)
  })

  test('rejects 34,952,537 Base64 characters as audio_too_large [spec B14]', async () => {
    await expectRefused(jsonWith({ audio_base64: 'A'.repeat(MAXIMUM_BASE64_LENGTH + 1) }), {
      code: 'audio_too_large',
      param: 'audio_base64',
      says: ['audio_base64', '34,952,537', '34,952,536'],
    })
  })
})

describe('the upload’s format is decided by its bytes [spec E59]', () => {
  const starting = (...head: readonly (string | number[])[]) =>
    joinBytes(...head.map((part) => Uint8Array.from(Buffer.from(part as string, 'latin1'))), zeros(2000))
  // MPEG 1 layer II, 128 kbit/s, 44.1 kHz: 417 bytes each.
  const layer2 = zeros(417 * 20)
  for (let frame = 0; frame < 20; frame++) layer2.set([0xff, 0xfd, 0x80, 0x00], frame * 417)
  const layer1 = zeros(416 * 20)
  for (let frame = 0; frame < 20; frame++) layer1.set([0xff, 0xff, 0xc0, 0x00], frame * 416)

  test.each([
    ['WAVE', starting('RIFF\xff\x07\0\0WAVEfmt '), 'RIFF'],
    ['MP4', starting('\0\0\0\x20ftypM4A \0\0\0\0'), 'MP4'],
    ['Ogg', starting('OggS\0\x02'), 'Ogg'],
    ['FLAC', starting('fLaC\0\0\0\x22'), 'FLAC'],
    ['Matroska', starting('\x1a\x45\xdf\xa3'), 'Matroska'],
    ['a PNG image', starting('\x89PNG\r\n\x1a\n'), 'PNG'],
    ['WAVE around an MP3', joinBytes(Buffer.from('RIFF\xff\x07\0\0WAVEfmt ', 'latin1'), mp3), 'RIFF'],
    ['MPEG layer II', layer2, 'layer II'],
    ['MPEG layer I', layer1, 'layer I'],
    ['text', Buffer.from('This is not audio. '.repeat(50)), 'not a decodable MP3'],
    ['zeros', zeros(5000), 'not a decodable MP3'],
    ['an ID3 tag without audio', starting('ID3\x03\0\0\0\0\x0f\x46').subarray(0, 2000), 'not a decodable MP3'],
    ['an empty file', zeros(0), ''],
    ['one byte', zeros(1), 'not a decodable MP3'],
  ])('rejects %s named .mp3 as unsupported_audio, naming what was found', async (_, audio, found) => {
    await expectRefused(form(modelField, file(audio)), { code: 'unsupported_audio', param: 'file', says: [found] })
    if (audio.length === 0) return
    const encoded = Buffer.from(audio).toString('base64')
    await expectRefused(jsonWith({ audio_base64: encoded }), {
      code: 'unsupported_audio',
      param: 'audio_base64',
      says: [found],
    })
  })
  test.each([
    ['as application/octet-stream', { contentType: 'application/octet-stream' }],
    ['as video/mp4 named .wav', { contentType: 'video/mp4', fileName: 'speech.wav' }],
    ['with an odd file name', { fileName: "../../etc/pässwd %00\\'; DROP TABLE jobs;--" }],
    ['with an empty file name', { fileName: '' }],
    ['without a type', { contentType: undefined }],
  ])(
    'accepts an MP3 %s',
    async (_, { contentType, fileName = 'speech.mp3' }: { contentType?: string | undefined; fileName?: string }) => {
      const part = { name: 'file', value: mp3, fileName, ...(contentType === undefined ? {} : { contentType }) }
      await expectChallenged(form(modelField, part))
    },
  )
  test('accepts an MP3 without a file name and without a type', async () => {
    await expectChallenged(form(modelField, field('file', mp3)))
    await expectChallenged(form(modelField, { name: 'file', value: mp3, contentType: 'audio/mpeg' }))
  })
})

describe('the JSON body', () => {
  const invalidJson = { code: 'invalid_json', param: null, says: ['JSON'] }
  test.each([
    ['empty', ''],
    ['a single space', ' '],
    ['cut off', `{"model":"${MODEL}"`],
    ['JSON followed by more', '{} {}'],
    ['JSON with a trailing comma', `{"model":"${MODEL}",}`],
    ['JSON with single quotes', "{'model':1}"],
    ['JSON with a comment', '{/* */}'],
    ['JSON with a raw line break in a string', '{"model":"a\nb"}'],
    ['JSON with NaN', '{"num_speakers":NaN}'],
    ['null', 'null'],
    ['an array', `[{"model":"${MODEL}"}]`],
    ['a string', '"model"'],
    ['a number', '5'],
    ['true', 'true'],
    ['a form', multipartBody([modelField, file()])],
    ['UTF-16', Buffer.from(JSON.stringify({ model: MODEL }), 'utf16le')],
    ['invalid UTF-8', Buffer.from(`{"model":"${MODEL}","language":"\xff\xfe","audio_base64":"AAAA"}`, 'latin1')],
    ['an overlong encoding', Buffer.from(`{"model":"${MODEL}","language":"\xc0\x80"}`, 'latin1')],
    ['a surrogate encoded as UTF-8', Buffer.from(`{"model":"${MODEL}","language":"\xed\xa0\x80"}`, 'latin1')],
  ])('answers 400 invalid_json to a body that is %s', async (_, body) => {
    await expectRefused(text(body), invalidJson)
  })
  test('rejects 1e400 like any number that is too large', async () => {
    const body = `{"model":"${MODEL}","audio_base64":"${base64}","num_speakers":1e400}`
    await expectRefused(text(body), { code: 'invalid_field', param: 'num_speakers', says: ['num_speakers'] })
  })
  test.each([
    ['100,000 open arrays', '['.repeat(100_000)],
    ['a language nested 10,000 deep', `{"model":"${MODEL}","language":${'['.repeat(10_000)}${']'.repeat(10_000)}}`],
  ])('answers 400 invalid_json to excessive nesting: %s', async (_, body) => {
    await expectRefused(text(body), invalidJson)
  })
  test.each([
    ['10 MB of open arrays', '['.repeat(10_000_000)],
    ['10 MB of empty objects', `[${'{},'.repeat(3_300_000)}{}]`],
    ['10 MB of keys', `{${'"a":0,'.repeat(1_600_000)}"b":0}`],
  ])('parses a malicious body without more work than its size: %s', async (_, body) => {
    // Work that grows faster than the body would exceed the test's timeout.
    const answer = await send(text(body))
    expect(answer.status).toBe(400)
    await answer.text()
  })
})

const BOUNDARY = MULTIPART_CONTENT_TYPE.replace(/^.*boundary=/, '')
/** Returns the bytes of a valid form with its first match replaced. */
function replaced(searched: string | RegExp, by: string): Buffer {
  const form = multipartBody([modelField, file()]).toString('latin1')
  const changed = form.replace(searched, by)
  if (changed === form) throw new Error(`nothing to replace: ${String(searched)}`)
  return Buffer.from(changed, 'latin1')
}

describe('the form', () => {
  const invalidMultipart = { code: 'invalid_multipart', param: null, says: ['multipart'] }
  const whole = multipartBody([modelField, file()])
  test.each([
    ['without a boundary', text(whole, 'multipart/form-data')],
    ['with another boundary', text(whole, 'multipart/form-data; boundary=other')],
    ['that contains JSON', text(json({ model: MODEL }).body, MULTIPART_CONTENT_TYPE)],
    ['truncated inside the file', text(whole.subarray(0, whole.length - 1000), MULTIPART_CONTENT_TYPE)],
    ['truncated before its last boundary', text(whole.subarray(0, whole.length - 30), MULTIPART_CONTENT_TYPE)],
  ])('answers 400 invalid_multipart to a form %s', async (_, sent) => {
    await expectRefused(sent, invalidMultipart)
  })
  test.each([
    ['whose first delimiter has blanks at its end', replaced('\r\n', ' \t\r\n')],
    ['with a part whose delimiter goes on', replaced(`${BOUNDARY}\r\n`, `${BOUNDARY}x\r\n`)],
    ['with a part without a head', replaced(/Content-Disposition[^\r]*\r\n/, '')],
    ['with a part without a name', replaced('name="model"', 'x="model"')],
  ])('answers 400 invalid_multipart to a form %s, instead of losing the part', async (_, body) => {
    await expectRefused(text(body, MULTIPART_CONTENT_TYPE), { code: 'invalid_multipart', param: null })
  })
  test('rejects a form’s option that is too long and names the field', async () => {
    await expectRefused(formWith('language', 'x'.repeat(100_000)), {
      code: 'invalid_field',
      param: 'language',
      says: ['language'],
    })
  })
  test('rejects a form of thousands of parts', async () => {
    const parts = Array.from({ length: 5000 }, (_, index) => field(`field${index}`, 'x'))
    await expectRefused(form(...parts), { code: 'invalid_multipart', param: null, says: ['more than 32 fields'] })
  })
  test('says which field’s declared type does not fit, instead of doubting the whole form', async () => {
    const broken = multipartBody([modelField, field('language', '{"en"'), file()])
      .toString('latin1')
      .replace('name="language"', 'name="language"\r\nContent-Type: application/json')
    await expectRefused(text(Buffer.from(broken, 'latin1'), MULTIPART_CONTENT_TYPE), {
      code: 'invalid_multipart',
      param: null,
      says: ['application/json', 'valid JSON'],
    })
  })
  test('rejects a form’s option that is not valid UTF-8', async () => {
    await expectRefused(form(modelField, field('language', Buffer.from('\xff', 'latin1')), file()), {
      code: 'invalid_field',
      param: 'language',
      says: ['language', 'UTF-8'],
    })
  })
  test('rejects an option that is sent as a file', async () => {
    const sent = form({ name: 'model', value: MODEL, fileName: 'model.txt' }, file())
    await expectRefused(sent, { code: 'unknown_field', param: 'model', says: ['model', 'file'] })
  })
  test('accepts an option with a content type', async () => {
    await expectChallenged(form({ ...modelField, contentType: 'text/plain; charset=utf-8' }, file()))
    const typed = { name: 'diarize', value: 'true', contentType: 'application/json' }
    await expectChallenged(form(modelField, typed, file()))
    await expectRefused(form(modelField, { ...typed, value: '{"a":1}' }, file()), {
      code: 'invalid_field',
      param: 'diarize',
      says: ['diarize', 'boolean'],
    })
  })
})

describe('the content type', () => {
  const body = jsonWith({}).body
  test.each([
    null,
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/octet-stream',
    'audio/mpeg',
    'multipart/mixed; boundary=x',
    'application/jsonp',
    'application/problem+json',
    'json',
  ])('answers 415 to the content type %s', async (contentType) => {
    await expectRefused(text(body, contentType), {
      status: 415,
      code: 'unsupported_content_type',
      param: null,
      says: ['application/json', 'multipart/form-data'],
    })
  })
  test.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset=UTF-8'])(
    'accepts %s as JSON',
    async (contentType) => {
      await expectChallenged(text(body, contentType))
    },
  )
  test('rejects a content type that is sent twice', async () => {
    const { answer } = await sendRaw(sandbox.info.baseUrl, {
      path: PATH,
      headers: [
        ['x-idempotency-key', randomUUID()],
        ['content-type', 'application/json'],
        ['content-type', MULTIPART_CONTENT_TYPE],
        ['content-length', '2'],
      ],
      body: [Buffer.from('{}')],
    })
    await expectNeverRetry(answer, { status: 400, code: 'duplicate_header', param: 'content-type' })
  })
})

/** How much a client may have sent before it reads the answer; on a busy machine that takes a while. */
const LONG_AFTER = 1_000_000_000

describe('a body beyond any valid one is refused with 413 while it still arrives', () => {
  const tooLarge = { status: 413, code: 'body_too_large', param: null, says: ['ffmpeg -i input'] }
  const announced = 100_000_000

  test.each(['application/json', MULTIPART_CONTENT_TYPE])(
    'answers 413 to a body whose announced length is too large: %s',
    async (contentType) => {
      const headers = [...headOf(contentType), ['content-length', String(announced)] as const]
      const { answer } = await sendRaw(sandbox.info.baseUrl, { path: PATH, headers, body: [Buffer.from('{')] })
      await expectNeverRetry(answer, tooLarge)
    },
  )
  test.each([
    ['JSON', 'application/json', '{"audio_base64":"', 'A'],
    ['a form before its first part', MULTIPART_CONTENT_TYPE, '\r\n', 'preamble'],
  ])('answers 413 while a body that is too large still arrives: %s', async (_, contentType, first, piece) => {
    const headers = [...headOf(contentType), ['transfer-encoding', 'chunked'] as const]
    const { answer, sentBytes } = await sendRaw(sandbox.info.baseUrl, {
      path: PATH,
      headers,
      body: endless(first, piece),
    })
    await expectNeverRetry(answer, tooLarge)
    expect(sentBytes).toBeLessThan(LONG_AFTER)
  })
  test('rejects a file part as audio_too_large while it still arrives', async () => {
    const headers = [...headOf(MULTIPART_CONTENT_TYPE), ['transfer-encoding', 'chunked'] as const]
    const first = multipartBody([modelField, file(new Uint8Array(0))])
      .toString('latin1')
      .replace(/\r\n--[^\r]*--\r\n$/, '')
    const { answer, sentBytes } = await sendRaw(sandbox.info.baseUrl, {
      path: PATH,
      headers,
      body: endless(first, '0'),
    })
    await expectNeverRetry(answer, {
      status: 400,
      code: 'audio_too_large',
      param: 'file',
      says: ['26,214,400', 'ffmpeg -i input'],
    })
    expect(sentBytes).toBeLessThan(LONG_AFTER)
  })
})

test('no refused request has called a vendor, moved money, created a job or bound its key [spec T2]', async () => {
  expect(refusedKeys.length).toBeGreaterThan(150)
  expect(await sandbox.upstreamCalls()).toEqual([])
  expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toEqual([])
  expect(await sandbox.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = ANY($1)', [refusedKeys])).toEqual([])
  expect(await sandbox.added('jobs')).toBe(0)
})

describe('one effective request', () => {
  const options = { language: 'en', diarize: true, num_speakers: 2, timestamps: 'word' }
  const defaults = {
    file_format: 'other',
    diarize: false,
    timestamps: 'none',
    tag_audio_events: false,
    response_format: 'json',
  }
  const asParts = (values: Record<string, unknown>) =>
    Object.entries(values).map(([name, value]) => field(name, String(value)))
  const spaced = (value: unknown) => text(` ${JSON.stringify(value, null, 2)}\n`)

  test.each([
    ['JSON and form', jsonWith(options), form(...asParts(options), modelField, file())],
    [
      'key order and spacing',
      jsonWith(options),
      spaced({
        timestamps: 'word',
        num_speakers: 2,
        diarize: true,
        language: 'en',
        audio_base64: base64,
        model: MODEL,
      }),
    ],
    [
      'escapes in JSON',
      jsonWith({}),
      text(JSON.stringify({ model: MODEL, audio_base64: base64 }).replaceAll('/', '\\/')),
    ],
    ['defaults spelled out', jsonWith({}), jsonWith(defaults)],
    ['defaults spelled out in a form', jsonWith({}), form(...asParts(defaults), file(), modelField)],
    [
      '2.0 and 2',
      jsonWith({ num_speakers: 2 }),
      text(`{"model":"${MODEL}","audio_base64":"${base64}","num_speakers":2.0}`),
    ],
    ['the order of parts', form(modelField, file()), form(file(), modelField)],
    ['file names and types', form(modelField, file()), form(modelField, field('file', mp3))],
  ])('accepts equivalent requests under the same key: %s', async (_, first, second) => {
    const idempotencyKey = randomUUID()
    const challenges = []
    for (const sent of [first, second, first])
      challenges.push(await expectChallenged(sent, { 'x-idempotency-key': idempotencyKey }))
    const amounts = await Promise.all(
      challenges.map(async (answer) => ((await answer.json()) as { price: unknown }).price),
    )
    expect(new Set(amounts.map((amount) => JSON.stringify(amount))).size).toBe(1)
  })
  test('Accept is not part of the effective request', async () => {
    const idempotencyKey = randomUUID()
    await expectChallenged(jsonWith({}), { 'x-idempotency-key': idempotencyKey, accept: 'application/json' })
    await expectChallenged(jsonWith({}), { 'x-idempotency-key': idempotencyKey, accept: 'text/plain' })
  })

  const other = generateMp3({ durationMs: 400, seed: 'another' })
  test.each([
    ['language', { language: 'de' }],
    ['diarize', { diarize: false }],
    ['num_speakers', { num_speakers: 3 }],
    ['num_speakers (left out)', { num_speakers: undefined }],
    ['timestamps', { timestamps: 'character' }],
    ['tag_audio_events', { tag_audio_events: true }],
    ['response_format', { response_format: 'verbose_json' }],
    ['audio of equal length and duration', { audio_base64: Buffer.from(other).toString('base64') }],
  ])('answers 409 without retry to a different %s under the same key [spec L5c, E74]', async (_, changes) => {
    const idempotencyKey = randomUUID()
    await expectChallenged(jsonWith(options), { 'x-idempotency-key': idempotencyKey })
    const answer = await send(jsonWith({ ...options, ...changes }), { 'x-idempotency-key': idempotencyKey })
    await expectNeverRetry(answer, {
      status: 409,
      code: 'idempotency_key_reused',
      param: 'x-idempotency-key',
      says: ['x-idempotency-key'],
    })
    await expectChallenged(jsonWith(options), { 'x-idempotency-key': idempotencyKey })
  })

  test('a challenge for JSON pays for the equivalent form, and the reverse', async () => {
    const forms = [jsonWith(options), form(file(), ...asParts({ ...defaults, ...options }), modelField)]
    for (const [challenged, paid] of [forms, forms.toReversed()]) {
      if (challenged === undefined || paid === undefined) throw new Error('expected two equivalent requests')
      const key = { 'x-idempotency-key': randomUUID() }
      const payment = await sandbox.payer.sign(await expectChallenged(challenged, key))
      const answer = await send(paid, { ...key, ...payment })
      const body = await answer.text()
      expect({ status: answer.status, body }).toMatchObject({ status: 200 })
      const replay = await send(challenged, { ...key, ...payment })
      expect({ status: replay.status, body: await replay.text() }).toEqual({ status: 200, body })
    }
    expect(await sandbox.upstreamCalls()).toHaveLength(2)
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(2)
  })
})
