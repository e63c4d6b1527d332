import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { createCatalog, type Model, type TextModel } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { textModels } from '#shared/catalog/published-models.ts'
import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import { operationById } from '#shared/operations/registry.ts'
import { pixelSize } from '#shared/operations/text/image-bytes.ts'
import { imageTokenBound, MAXIMUM_IMAGE_TOKENS } from '#shared/operations/text/image-tokens.ts'
import { extraOutputSeconds } from '#shared/operations/text/output-time.ts'
import { largestTextBytes, type TextTerms } from '#shared/operations/text/text-quote.ts'
import {
  type EffectiveTranscription,
  type TranscriptionTerms,
  transcriptions,
} from '#shared/operations/transcriptions.ts'
import { dataUri, gifHead, jpegHead, pngHead, webpHead } from './sample-images.ts'
import { IMAGE_MODEL, quoteOf, SPEECH_MODEL, smallCatalog, TEXT_MODEL } from './small-catalog.ts'

const [chat, message] = ['createChatCompletion', 'createMessage'] as const
function textQuote(content: unknown, fields: object = {}) {
  const body = { model: TEXT_MODEL, messages: [{ role: 'user', content }], max_tokens: 512, ...fields }
  const { quotedMaximum, terms } = quoteOf(chat, body)
  return { quotedMaximum, terms: terms as TextTerms }
}
const text = fc.string({ unit: 'grapheme', maxLength: 400 })
const something = text.filter((said) => said !== '')
function refusalOf(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    return error
  }
  return null
}
/** Returns the tokens that one image adds to a request of one message with one part. */
function imageBound(url: string): number {
  return textQuote([{ type: 'image_url', image_url: { url } }]).terms.maximum_input_tokens - (256 + 16 + 16)
}
function priced(changes: object) {
  return createCatalog({
    ...smallCatalog,
    models: smallCatalog.models.map((model) =>
      model.category === 'text_to_speech' ? { ...model, ...changes } : model,
    ),
  })
}
const withTextPrices = (prices: Partial<TextModel>) =>
  createCatalog({
    ...smallCatalog,
    models: smallCatalog.models.map((model) => (model.id === TEXT_MODEL ? { ...model, ...prices } : model)) as Model[],
  })
const TERMS: TranscriptionTerms = {
  price_per_audio_hour_usd: '0.122',
  minimum_charge_usd: '0.005034',
  maximum_charge_usd: '0.122',
}
const AUDIO = { sha256: 'a'.repeat(64), bytes: 1000, durationMs: 2000 }
const BODY = { model: 'speechvendor/scribe-v2' }
const durations = fc.integer({ min: 1, max: 3_600_000 })
const charge = (ms: number) => transcriptions.charge({ input_audio_ms: ms }, TERMS)
function effective(body: Record<string, unknown>, audio = AUDIO): EffectiveTranscription {
  return transcriptions.effectiveRequest(transcriptions.bodySchema.parse(body), audio, publishedCatalog)
}
function digest(body: Record<string, unknown>, audio = AUDIO): string {
  return sha256Hex(canonicalJson(effective(body, audio)))
}

describe('quotes', () => {
  test('the input token bound covers every byte of every text, and so every token of a byte-level tokenizer', () => {
    fc.assert(
      fc.property(text, something, text, (system, said, description) => {
        const tools = [
          { type: 'function', function: { name: 'f', description, parameters: { type: 'object', title: said } } },
        ]
        const { terms } = textQuote(said, {
          messages: [
            { role: 'system', content: system },
            { role: 'user', content: said },
          ],
          tools,
        })
        const bytes = Buffer.byteLength(system + said + description + said)
        expect(terms.maximum_input_tokens).toBeGreaterThan(bytes)
        // The bound also covers the longest plain rendering of the definition, as Python's json.dumps writes it.
        const ascii = JSON.stringify(tools[0]?.function)
          .replace(/[\u0080-\uffff]/g, '......')
          .replace(/[,:]/g, '$& ')
        expect(terms.maximum_input_tokens).toBeGreaterThanOrEqual(Buffer.byteLength(system + said) + ascii.length)
      }),
    )
  })

  test.each([
    ['emoji', '👩‍👩‍👧‍👦'],
    ['CJK', '漢字'],
    ['Thai', 'สวัสดี'],
    ['ASCII', 'x'],
  ])('%s is bounded by its byte count', (_name, unit) => {
    const bound = (count: number) => textQuote(unit.repeat(count)).terms.maximum_input_tokens
    expect(bound(101) - bound(1)).toBe(Buffer.byteLength(unit) * 100)
  })

  test('both families quote the same maximum for the same request', () => {
    const body = { model: TEXT_MODEL, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5000 }
    expect(quoteOf(message, body)).toEqual(quoteOf(chat, body))
  })

  test('the quote never falls as max_tokens or the input grows', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 59_999 }), something, (maxTokens, said) => {
        const quote = textQuote(said, { max_tokens: maxTokens }).quotedMaximum
        expect(textQuote(said, { max_tokens: maxTokens + 1 }).quotedMaximum).toBeGreaterThanOrEqual(quote)
        expect(textQuote(`${said}x`, { max_tokens: maxTokens }).quotedMaximum).toBeGreaterThanOrEqual(quote)
      }),
    )
  })

  test('rounds the exact sum up once and raises it to the minimum', () => {
    // 256 for the request, 16 for the message, 16 for the part, 1 byte; at 1 and 10 dollars for a million.
    expect(textQuote('x', { max_tokens: 512 })).toEqual({
      quotedMaximum: 5409n,
      terms: {
        input_per_million_tokens_usd: '1',
        output_per_million_tokens_usd: '10',
        minimum_charge_usd: '0.002',
        maximum_charge_usd: '0.766952',
        maximum_input_tokens: 289,
        maximum_output_tokens: 512,
      },
    })
    expect(textQuote('x', { max_tokens: 1 }).quotedMaximum).toBe(2000n)
  })

  test('has the prices of the prompt cache in its terms, and a maximum at the highest price of the input', () => {
    const body = { model: TEXT_MODEL, messages: [{ role: 'user', content: 'x' }], max_tokens: 512 }
    const read = quoteOf(chat, body, withTextPrices({ cachedInputPerMillionTokensUsd: '0.1' }))
    expect(read).toMatchObject({ quotedMaximum: 5409n, terms: { cached_input_per_million_tokens_usd: '0.1' } })
    const written = quoteOf(chat, body, withTextPrices({ cacheWritePerMillionTokensUsd: '1.25' }))
    // 289 tokens at 1.25 dollars for a million, rounded up, and the same output.
    expect(written).toMatchObject({ quotedMaximum: 5482n, terms: { cache_write_per_million_tokens_usd: '1.25' } })
  })

  test('rejects max_tokens above the limit of the model', () => {
    expect(textQuote('x', { max_tokens: 60_000 }).terms.maximum_output_tokens).toBe(60_000)
    expect(refusalOf(() => textQuote('x', { max_tokens: 60_001 }))).toMatchObject({
      code: 'invalid_field',
      param: 'max_tokens',
      message: `max_tokens must be at most 60000 for ${TEXT_MODEL}; got 60001.`,
    })
  })

  test('rejects input and output that together exceed the context window', () => {
    const longest = 200_000 - 100 - 288
    expect(textQuote('x'.repeat(longest), { max_tokens: 100 }).terms.maximum_input_tokens).toBe(199_900)
    expect(refusalOf(() => textQuote('x'.repeat(longest + 1), { max_tokens: 100 }))).toMatchObject({
      code: 'context_length_exceeded',
      param: 'messages',
      message: expect.stringContaining('which is 1 more than the 200000') as string,
    })
  })

  test.each(textModels)(
    'the published input bytes of $id are the most text that one message can have [spec O39]',
    (model) => {
      const quote = (bytes: number) => {
        const messages = [{ role: 'user', content: 'x'.repeat(bytes) }]
        return quoteOf('createMessage', { model: model.id, messages, max_tokens: 1 }, publishedCatalog)
      }
      const largest = largestTextBytes(model)
      expect(quote(largest).quotedMaximum).toBeLessThanOrEqual(766_952n)
      expect(refusalOf(() => quote(largest + 1))).toMatchObject({
        code: model.id === TEXT_MODEL ? 'maximum_price_exceeded' : 'context_length_exceeded',
        entry: { status: 400 },
      })
    },
  )

  test('the published input bytes of a model without an input price follow its context window alone', () => {
    const [model] = textModels
    if (!model) throw new Error('no text model')
    const free = { ...model, inputPerMillionTokensUsd: '0', contextWindow: 1000 }
    expect(largestTextBytes(free)).toBe(1000 - 1 - 288)
    expect(largestTextBytes({ ...free, contextWindow: 100 })).toBe(0)
  })

  test('rejects a maximum above the bound of one call and states the excess', () => {
    // 600,000 for the output leaves 166,952 tokens for the input.
    const longest = 166_952 - 288
    const roomy = createCatalog({
      ...smallCatalog,
      models: smallCatalog.models.map((model) =>
        model.category === 'text_generation' ? { ...model, contextWindow: 2_000_000 } : model,
      ),
    })
    const quote = (bytes: number, max_tokens: number) =>
      quoteOf(chat, { model: TEXT_MODEL, messages: [{ role: 'user', content: 'x'.repeat(bytes) }], max_tokens }, roomy)
    expect(quote(longest, 60_000).quotedMaximum).toBe(766_952n)
    expect(refusalOf(() => quote(longest + 1, 60_000))).toMatchObject({
      code: 'maximum_price_exceeded',
      param: 'max_tokens',
      entry: { status: 400, kind: 'invalid_request', retry: 'never', payment: 'none' },
      message:
        'The maximum price of this request is 0.766953 USD, which is 0.000001 USD above the bound of 0.766952 USD for one call. Lower max_tokens or shorten the input.',
    })
    expect(refusalOf(() => quote(800_000, 1))).toMatchObject({ code: 'maximum_price_exceeded', param: 'messages' })
  })

  test('the charge stays between the minimum and the quote, whatever usage an upstream reports [spec B19]', () => {
    const reported = fc.oneof(fc.nat(), fc.constantFrom(0, 1, 289, 290, Number.MAX_SAFE_INTEGER))
    const operation = operationById(chat)
    fc.assert(
      fc.property(
        reported,
        reported,
        fc.integer({ min: 1, max: 60_000 }),
        (input_tokens, output_tokens, max_tokens) => {
          const { quotedMaximum, terms } = textQuote('x', { max_tokens })
          const charged = operation.charge({ input_tokens, output_tokens, thinking_tokens: output_tokens }, terms)
          expect(charged).toBeGreaterThanOrEqual(2000n)
          expect(charged).toBeLessThanOrEqual(quotedMaximum)
        },
      ),
    )
    const { terms } = textQuote('x', { max_tokens: 1000 })
    expect(operation.charge({ input_tokens: 3, output_tokens: 500 }, terms)).toBe(5003n)
    // Unused tokens of one kind do not offset excess tokens of the other.
    expect(operation.charge({ input_tokens: 5000, output_tokens: 500 }, terms)).toBe(5289n)
  })

  test('bounds images by the most expensive documented formula, and by the worst case when their size is unknown', () => {
    expect(imageBound(dataUri(pngHead(64, 64)))).toBe(85 + 8 * 170)
    expect(imageBound(dataUri(jpegHead(1024, 1024)))).toBe(Math.ceil(1024 * 2.46))
    expect(imageBound(dataUri(pngHead(3072, 3072)))).toBe(4784)
    expect(imageBound(dataUri(pngHead(3072, 384)))).toBe(MAXIMUM_IMAGE_TOKENS)
    for (const url of ['https://example.com/a', dataUri(gifHead), dataUri(webpHead)])
      expect(imageBound(url)).toBe(MAXIMUM_IMAGE_TOKENS)
  })

  test('an image of any size costs at most the worst case and at least the smallest vendor minimum', () => {
    const side = fc.oneof(fc.integer({ min: 1, max: 4000 }), fc.integer({ min: 1, max: 2 ** 32 - 1 }))
    fc.assert(
      fc.property(side, side, (width, height) => {
        const bound = imageTokenBound({ width, height })
        expect(bound).toBeLessThanOrEqual(MAXIMUM_IMAGE_TOKENS)
        expect(bound).toBeGreaterThanOrEqual(1445)
      }),
      { numRuns: 2000 },
    )
  })

  test('reads sizes from the header of the image itself, never from a thumbnail or corrupt data', () => {
    expect(pixelSize(pngHead(70_000, 3))).toEqual({ width: 70_000, height: 3 })
    expect(pixelSize(jpegHead(640, 480))).toEqual({ width: 640, height: 480 })
    for (const bytes of [
      pngHead(0, 3),
      pngHead(3, 3).subarray(0, 20),
      jpegHead(5, 5).subarray(0, 26),
      gifHead,
      webpHead,
      Buffer.alloc(0),
    ])
      expect(pixelSize(bytes)).toBeNull()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (junk) => {
        pixelSize(Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), junk]))
      }),
    )
  })

  test('an image costs its fixed price', () => {
    const { quotedMaximum, terms } = quoteOf('createImageGeneration', { model: IMAGE_MODEL, prompt: 'x' })
    expect(quotedMaximum).toBe(35_000n)
    expect(operationById('createImageGeneration').charge({ images: 1 }, terms)).toBe(35_000n)
  })

  test.each([
    [1, 2000n],
    [9, 2000n],
    [10, 2205n],
    [11, 2426n],
    [1000, 220_500n],
    [2000, 441_000n],
  ])('speech of %i characters costs %s atomic USDC', (characters, price) => {
    const { quotedMaximum, terms } = quoteOf('createSpeech', {
      model: SPEECH_MODEL,
      input: `a${'🎵'.repeat(characters - 1)}`,
    })
    const operation = operationById('createSpeech')
    expect(quotedMaximum).toBe(price)
    expect(operation.charge({ input_characters: characters }, terms)).toBe(price)
    expect(operation.charge({ input_characters: characters * 1000 }, terms)).toBe(price)
  })

  test('rejects a voice or a speech length that the catalog does not offer', () => {
    const body = { model: SPEECH_MODEL, input: 'Hello' }
    expect(refusalOf(() => quoteOf('createSpeech', { ...body, voice: 'wyatt' }))).toMatchObject({
      code: 'invalid_field',
      param: 'voice',
    })
    expect(refusalOf(() => quoteOf('createSpeech', body, priced({ maximumCharacters: 4 })))).toMatchObject({
      code: 'invalid_field',
      param: 'input',
    })
    expect(
      refusalOf(() => quoteOf('createSpeech', body, priced({ pricePerThousandCharactersUsd: '100' }))),
    ).toMatchObject({
      code: 'maximum_price_exceeded',
      param: 'input',
      message: expect.stringContaining('0.059 USD above the bound of 0.441 USD') as string,
    })
  })
})

describe('the time that an output takes', () => {
  it.each([
    [1, 0],
    [16_384, 0],
    [16_385, 1 / 128],
    [32_768, 128],
    [65_536, 384],
  ])('a request for up to %d output tokens gets %d seconds beyond the ordinary limit', (tokens, seconds) => {
    expect(extraOutputSeconds({ maximum_output_tokens: tokens, minimum_charge_usd: '0.002' }, 128)).toBe(seconds)
  })

  it.each([[{ price_per_audio_hour_usd: '0.122' }], [null], [{ maximum_output_tokens: '65536' }]])(
    'terms without output tokens get none: %j',
    (terms) => expect(extraOutputSeconds(terms, 128)).toBe(0),
  )
})

describe('the charge', () => {
  it('charges the published price per millisecond, rounded up once, within the published bounds', () => {
    fc.assert(
      fc.property(durations, (ms) => {
        const exact = (122_000n * BigInt(ms)) / 3_600_000n + ((122_000n * BigInt(ms)) % 3_600_000n === 0n ? 0n : 1n)
        const bounded = exact < 5034n ? 5034n : exact > 122_000n ? 122_000n : exact
        return charge(ms) === bounded
      }),
      { numRuns: 2000 },
    )
  })

  it('never charges less for longer audio', () => {
    fc.assert(fc.property(durations, durations, (one, other) => one > other || charge(one) <= charge(other)))
  })

  it('charges between 5034 and 122000 atomic units, both included [spec B21]', () => {
    fc.assert(fc.property(durations, (ms) => charge(ms) >= 5034n && charge(ms) <= 122_000n))
    expect([charge(1), charge(3_600_000)]).toEqual([5034n, 122_000n])
  })

  it('the charge exceeds the minimum exactly where the price per millisecond does', () => {
    // 148,544 ms cost 5033.99… and 148,545 ms cost 5034.03 atomic units.
    expect([charge(148_544), charge(148_545), charge(148_546)]).toEqual([5034n, 5035n, 5035n])
    expect(charge(3_599_999)).toBe(122_000n)
    expect(charge(3_599_970)).toBe(121_999n)
  })

  it('charges the quoted maximum, since the duration is known beforehand', () => {
    fc.assert(
      fc.property(durations, (durationMs) => {
        const quote = transcriptions.quote(effective(BODY, { ...AUDIO, durationMs }), publishedCatalog)
        return quote.quotedMaximum === transcriptions.charge({ input_audio_ms: durationMs }, quote.terms)
      }),
    )
  })

  it('charges by the terms of the quote, even when the catalog changes later', () => {
    expect(transcriptions.charge({ input_audio_ms: 3_600_000 }, { ...TERMS, maximum_charge_usd: '0.05' })).toBe(50_000n)
  })
})

describe('the quote', () => {
  it('quotes carry the catalog version and freeze its prices', () => {
    expect(transcriptions.quote(effective(BODY), publishedCatalog)).toEqual({
      quotedMaximum: 5034n,
      catalogVersion: publishedCatalog.version,
      terms: TERMS,
    })
  })

  it('quoting a model that the catalog does not have throws', () => {
    const empty = createCatalog({ models: [], voices: [] })
    expect(() => transcriptions.quote(effective(BODY), empty)).toThrow('no model')
  })
})

describe('the effective request', () => {
  it('the effective request is the same with explicit and with omitted defaults', () => {
    const written = {
      ...BODY,
      file_format: 'other',
      diarize: false,
      timestamps: 'none',
      tag_audio_events: false,
      response_format: 'json',
    }
    expect(digest(written)).toBe(digest(BODY))
  })

  it('the effective request does not depend on the order of fields', () => {
    expect(digest({ diarize: true, language: 'en', ...BODY })).toBe(digest({ ...BODY, language: 'en', diarize: true }))
  })

  it('treats an empty language as absent', () => {
    expect(digest({ ...BODY, language: '' })).toBe(digest(BODY))
  })

  it('the effective request changes with every option and every measured fact', () => {
    const digests = [
      digest(BODY),
      digest({ ...BODY, language: 'en' }),
      digest({ ...BODY, language: 'de' }),
      digest({ ...BODY, diarize: true }),
      digest({ ...BODY, num_speakers: 2 }),
      digest({ ...BODY, num_speakers: 3 }),
      digest({ ...BODY, timestamps: 'word' }),
      digest({ ...BODY, timestamps: 'character' }),
      digest({ ...BODY, tag_audio_events: true }),
      digest({ ...BODY, response_format: 'verbose_json' }),
      digest(BODY, { ...AUDIO, sha256: 'b'.repeat(64) }),
      digest(BODY, { ...AUDIO, bytes: 1001 }),
      digest(BODY, { ...AUDIO, durationMs: 2001 }),
    ]
    expect(new Set(digests).size).toBe(digests.length)
  })

  it('the effective request survives a JSON round trip', () => {
    const stored = effective({ ...BODY, language: 'en', num_speakers: 4, diarize: true })
    expect(transcriptions.effectiveRequestSchema.parse(JSON.parse(JSON.stringify(stored)))).toEqual(stored)
  })

  it('rejects options that are not supported', () => {
    const refused = [
      { ...BODY, temperature: 0 },
      { ...BODY, model: 'speechvendor/other' },
      { ...BODY, num_speakers: 0 },
      { ...BODY, num_speakers: 33 },
      { ...BODY, num_speakers: 1.5 },
      { ...BODY, diarize: 'true' },
      { ...BODY, language: 'x'.repeat(65) },
      { ...BODY, language: '\ud800' },
      ...['\0', 'en\0', 'e\nn', '\t', 'en\x7f', '\x85'].map((language) => ({ ...BODY, language })),
      { ...BODY, timestamps: 'segment' },
      {},
    ]
    for (const body of refused) expect([body, transcriptions.bodySchema.safeParse(body).success]).toEqual([body, false])
  })
})

describe('the catalog version', () => {
  const { models, voices } = publishedCatalog
  const model = models.at(-1) as Model
  const versionWith = (last: Model) => createCatalog({ models: [...models.slice(0, -1), last], voices }).version

  it('the catalog version is the same for the same content', () => {
    expect(versionWith({ ...model })).toBe(publishedCatalog.version)
  })

  it('the catalog version does not depend on the order of fields', () => {
    const reversed = Object.fromEntries(Object.entries(model).toReversed()) as unknown as Model
    expect(versionWith(reversed)).toBe(publishedCatalog.version)
  })

  it('the catalog version changes with any field of a model and with the list of models', () => {
    const changed = Object.entries(model).map(([field, value]) => {
      const other = typeof value === 'number' ? value + 1 : Array.isArray(value) ? ['wav'] : `${String(value)}x`
      return versionWith({ ...model, [field]: other })
    })
    const lists = [[], [...models, model]].map((list) => createCatalog({ models: list, voices }).version)
    const versions = [publishedCatalog.version, ...changed, ...lists]
    expect(new Set(versions).size).toBe(Object.keys(model).length + 3)
  })
})
