import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createCatalog, type Model } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import {
  type EffectiveTranscription,
  type TranscriptionTerms,
  transcriptions,
} from '#shared/operations/transcriptions.ts'

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
