import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { parseJsonBody } from '../../../api/request/json-body.ts'
import { joinJsonUpload, parseJsonWithUpload, splitJsonUpload } from '../../../api/request/json-upload.ts'
import { prepareBody } from '../../../api/request/prepare-request.ts'
import { prepareQuote, uploadRequestOf } from '../../../api/request/quote-request.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'

const FIELD = uploadField()
const AUDIO = Buffer.from(generateMp3({ durationMs: 2000 }))
const ENCODED = AUDIO.toString('base64')
const MODEL = '"model":"speechvendor/scribe-v2"'
function uploadField() {
  if (!transcriptions.upload) throw new Error('transcriptions take an upload')
  return transcriptions.upload
}
const CATALOGS = { read: publishedCatalog, offered: () => publishedCatalog }
interface Reader {
  readonly read: (given: unknown) => unknown
  /** Returns the object that the upload belongs to. */
  readonly holderOf: (parsed: unknown) => unknown
}
const endpoint: Reader = {
  read: (given) => prepareBody(transcriptions, given, CATALOGS),
  holderOf: (parsed) => parsed,
}
const quotes: Reader = { read: (given) => prepareQuote(given, CATALOGS).prepared, holderOf: uploadRequestOf }
/** Returns what reading a body comes to by the text of the JSON, as plain data. */
function byText(body: Buffer, { read }: Reader): unknown {
  return outcomeOf(() => read(parseJsonBody(body)))
}
/** Returns the same by the bytes, or `null` when they are not taken. */
function byBytes(body: Buffer, { read, holderOf }: Reader): unknown {
  const given = parseJsonWithUpload(body, FIELD, holderOf)
  return given === null ? null : outcomeOf(() => read(given))
}
/** Returns the same by the bytes when the upload is taken out on a thread, or `null` when it is not. */
function bySplit(body: Buffer): unknown {
  const split = splitJsonUpload(body, FIELD)
  return split && outcomeOf(() => endpoint.read(joinJsonUpload(split.rest, FIELD, split.upload)))
}
function outcomeOf(work: () => unknown): unknown {
  try {
    return structuredClone(JSON.parse(JSON.stringify(work())))
  } catch (error) {
    return { code: (error as { code?: string }).code, message: (error as Error).message }
  }
}
const UPLOAD = `"${ENCODED.slice(0, 2000)}"`
const raw = (...bytes: number[]) => Buffer.from(bytes).toString('latin1')
const keys = fc.constantFrom(
  '"audio_base64"',
  '"audio\\u005fbase64"',
  '"\\u0061udio_base64"',
  '"x\\"audio_base64"',
  '"AUDIO_BASE64"',
  '"model"',
  '"language"',
  '"diarize"',
  '"num_speakers"',
  '"request"',
  '"operation"',
  '"challenge"',
  '"audio"',
  '"__proto__"',
  '"constructor"',
  '""',
  '"\\ud800"',
  `"${raw(0xff)}"`,
  `"${raw(0xc3, 0xa9)}"`,
)
const scalars = fc.constantFrom(
  UPLOAD,
  `"\\/${UPLOAD.slice(2)}`,
  `${UPLOAD.slice(0, -1)}="`,
  `"${raw(0xc1, 0x81)}${UPLOAD.slice(3)}`,
  '"speechvendor/scribe-v2"',
  '"createTranscription"',
  '"audio_base64"',
  `"\\"audio_base64\\":\\"AAAA"`,
  '"AAAA"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"en"',
  '""',
  `"${raw(0x80)}"`,
  `"${raw(0xed, 0xa0, 0x80)}"`,
  '"\\u0000"',
  'true',
  'false',
  'null',
  '2',
  '2.0',
  '1e400',
  '-0',
  '9007199254740993',
  '0x1',
  'NaN',
  '01',
  `1${'0'.repeat(400)}`,
  `${'['.repeat(64)}${']'.repeat(64)}`,
  '[]',
  '{}',
  '',
  `[${UPLOAD}]`,
  `{"audio_base64":${UPLOAD}}`,
)
const blanks = fc.constantFrom('', '', '', ' ', '\n\t\r ', raw(0xc2, 0xa0), '/**/')
const anyMember = fc
  .tuple(blanks, keys, blanks, scalars, blanks)
  .map(([a, key, b, value, c]) => `${a}${key}${b}:${value}${c}`)
const soundMember = fc.constantFrom(
  '"diarize":true',
  '"num_speakers" : 2.0',
  '"language":"\\u65e5"',
  '"timestamps":"word"',
)
const members = fc.array(fc.oneof({ weight: 2, arbitrary: soundMember }, { weight: 1, arbitrary: anyMember }), {
  maxLength: 2,
})
const complete = fc.constantFrom(
  `"model":"speechvendor/scribe-v2","audio_base64":${UPLOAD}`,
  `"audio_base64":${UPLOAD}`,
)
const objects = fc
  .tuple(members, complete, members)
  .map(([before, middle, after]) => `{${[...before, middle, ...after].join(',')}}`)
const quotedObjects = fc
  .tuple(members, objects, members)
  .map(
    ([before, request, after]) =>
      `{${[...before, '"operation":"createTranscription"', `"request":${request}`, ...after].join(',')}}`,
  )
/** Bodies whose bytes are given as Latin-1 text. */
const surroundedUploads = fc
  .tuple(
    fc.constantFrom('', '', '', '', '', raw(0xef, 0xbb, 0xbf), raw(0xff, 0xfe), '\0', ' '),
    fc.oneof(objects, quotedObjects),
    fc.constantFrom('', '', '', '', '', '\n', '\0', '}', 'x', raw(0xef, 0xbb, 0xbf), raw(0x80)),
  )
  .map((parts) => Buffer.from(parts.join(''), 'latin1'))

describe('a JSON body with an upload', () => {
  it.each([
    ['a plain body', `{${MODEL},"audio_base64":"${ENCODED}"}`],
    ['whitespace everywhere', ` {\n${MODEL} ,\t"audio_base64"\r\n : "${ENCODED}" }\n`],
    ['options after the upload', `{"audio_base64":"${ENCODED}",${MODEL},"diarize":true,"num_speakers":2.0}`],
    ['a byte order mark', `\uFEFF{${MODEL},"audio_base64":"${ENCODED}"}`],
    ['text beyond ASCII', `{${MODEL},"language":"日本","audio_base64":"${ENCODED}"}`],
  ])('is read from its bytes as from its text: %s', (_, text) => {
    const body = Buffer.from(text)
    const read = byBytes(body, endpoint)
    expect(read).toMatchObject({ kind: 'upload', upload: { walk: { outcome: 'mp3' } } })
    expect(read).toEqual(byText(body, endpoint))
    expect(bySplit(body)).toEqual(read)
  })

  it('is read from its bytes inside the body of a quote', () => {
    const body = Buffer.from(`{"operation":"createTranscription","request":{${MODEL},"audio_base64":"${ENCODED}"}}`)
    expect(byBytes(body, quotes)).toMatchObject({ kind: 'upload' })
    expect(byBytes(body, quotes)).toEqual(byText(body, quotes))
  })

  const long = 'x'.repeat(2 * ENCODED.length)
  it.each([
    ['an escape in the upload', `{${MODEL},"audio_base64":"\\u${ENCODED}"}`],
    ['an escaped slash in the upload', `{${MODEL},"audio_base64":"\\/${ENCODED.slice(1)}"}`],
    ['an escape in the key', `{${MODEL},"audio\\u005fbase64":"${ENCODED}"}`],
    ['two uploads', `{${MODEL},"audio_base64":"${ENCODED}","audio_base64":"AAAA"}`],
    ['two uploads in two spellings', `{${MODEL},"audio_base64":"${ENCODED}","audio\\u005fbase64":"AAAA"}`],
    ['another field twice', `{${MODEL},${MODEL},"audio_base64":"${ENCODED}"}`],
    ['the upload deeper in the body', `{${MODEL},"x":{"audio_base64":"${ENCODED}"}}`],
    ['the upload in an array', `{${MODEL},"audio_base64":["${ENCODED}"]}`],
    ['the upload as the body', `"audio_base64" : "${ENCODED}"`],
    ['the key inside of another string', `{"x\\"audio_base64":"${ENCODED}",${MODEL}}`],
    ['the key as a value', `{"x":"audio_base64","y":"${ENCODED}",${MODEL}}`],
    ['an unclosed string', `{${MODEL},"audio_base64":"${ENCODED}`],
    ['an unclosed object', `{${MODEL},"audio_base64":"${ENCODED}"`],
    ['text after the body', `{${MODEL},"audio_base64":"${ENCODED}"} x`],
    ['a line break in the upload', `{${MODEL},"audio_base64":"${ENCODED.slice(0, 76)}\n${ENCODED.slice(76)}"}`],
    [
      'an escaped line break in the upload',
      `{${MODEL},"audio_base64":"${ENCODED.slice(0, 76)}\\n${ENCODED.slice(76)}"}`,
    ],
    ['the URL-safe alphabet', `{${MODEL},"audio_base64":"${'-_'.repeat(4000)}"}`],
    ['missing padding', `{${MODEL},"audio_base64":"${ENCODED.slice(0, -1)}"}`],
    ['more structure than is parsed', `{${MODEL},"audio_base64":"${ENCODED}","x":${'['.repeat(65)}${']'.repeat(65)}}`],
    ['more text than upload', `{${MODEL},"audio_base64":"${ENCODED}","language":"${long}"}`],
    ['an unknown field', `{${MODEL},"audio_base64":"${ENCODED}","x":1}`],
    ['a property __proto__', `{${MODEL},"audio_base64":"${ENCODED}","__proto__":{}}`],
    ['no model', `{"audio_base64":"${ENCODED}"}`],
    ['an empty upload', `{${MODEL},"audio_base64":""}`],
  ])('is taken by its bytes only where its text comes to the same: %s', (_, text) => {
    const body = Buffer.from(text)
    for (const reader of [endpoint, quotes]) expect([null, byText(body, reader)]).toContainEqual(byBytes(body, reader))
    expect(bySplit(body)).toEqual(byBytes(body, endpoint))
  })

  it.each([
    ['belongs to another object than the field', `{"x":{"audio_base64":"${ENCODED}"},"audio_base64":"AAAA",${MODEL}}`],
    ['is less than half of the body, whose rest would be parsed twice', `{"audio_base64":"${ENCODED}","x":"${long}"}`],
  ])('is not taken by its bytes when the string %s', (_, text) => {
    expect(parseJsonWithUpload(Buffer.from(text), FIELD, endpoint.holderOf)).toBeNull()
  })

  // Their open objects take extra fields and are walked member by member: bytes there would be millions of members.
  it.each(['createChatCompletion', 'createMessage', 'createSpeech', 'unknown', '__proto__'])(
    'is not taken by its bytes in the quote of an operation without an upload: %s',
    (operation) => {
      const body = Buffer.from(`{"operation":"${operation}","request":{${MODEL},"audio_base64":"${ENCODED}"}}`)
      expect(parseJsonWithUpload(body, FIELD, quotes.holderOf)).toBeNull()
    },
  )

  it('is not taken by its bytes when it is longer than any upload', () => {
    const body = Buffer.from(`{${MODEL},"audio_base64":"${ENCODED}"}`)
    const limits = { jsonField: 'audio_base64', maximumBase64Length: ENCODED.length - 4 }
    expect(parseJsonWithUpload(body, limits, endpoint.holderOf)).toBeNull()
  })

  it('is taken by its bytes only where its text comes to the same, whatever bytes are changed', () => {
    const valid = Buffer.from(`{${MODEL},"audio_base64":"${ENCODED.slice(0, 400)}","diarize":true}`)
    const piece = fc.oneof(
      fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '=', '"audio_base64":"', '"audio_base64"', '\\u0022'),
      fc.uint8Array({ minLength: 1, maxLength: 4 }),
    )
    const changes = fc.array(fc.tuple(piece, fc.nat(), fc.nat({ max: 30 })), { minLength: 1, maxLength: 3 })
    let taken = 0
    fc.assert(
      fc.property(changes, (all) => {
        let body: Buffer = valid
        for (const [text, place, removed] of all) {
          const at = place % body.length
          body = Buffer.concat([body.subarray(0, at), Buffer.from(text as string), body.subarray(at + removed)])
        }
        const read = byBytes(body, endpoint)
        if (read === null) return
        taken += 1
        expect(read).toEqual(byText(body, endpoint))
      }),
      { numRuns: 2000 },
    )
    expect(taken).toBeGreaterThan(0)
  })

  it('comes to the same by its bytes and by its text, whatever JSON or almost-JSON surrounds it', () => {
    let taken = 0
    fc.assert(
      fc.property(fc.constantFrom(endpoint, quotes), surroundedUploads, (reader, body) => {
        const read = byBytes(body, reader)
        if (read === null) return
        const isUpload = typeof read === 'object' && 'kind' in read && read.kind === 'upload'
        // Anything else is read again from its text.
        if (!isUpload) return
        taken += 1
        expect(read).toEqual(byText(body, reader))
      }),
      { numRuns: 3000 },
    )
    fc.assert(
      fc.property(surroundedUploads, (body) => {
        // What a thread takes is not read again: the refusals are the same, too.
        expect([null, byText(body, endpoint)]).toContainEqual(bySplit(body))
      }),
      { numRuns: 3000 },
    )
    expect(taken).toBeGreaterThan(10)
  })
})
