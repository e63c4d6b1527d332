import { describe, expect, it } from 'vitest'
import { findModel } from '#shared/catalog/catalog.ts'
import { overrideCatalog } from '#shared/catalog/catalog-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'

const override = (models: Record<string, unknown>) => overrideCatalog(publishedCatalog, JSON.stringify({ models }))
const voices = (overrides: Record<string, unknown>, models: Record<string, unknown> = {}) =>
  overrideCatalog(publishedCatalog, JSON.stringify({ models, voices: overrides }))
const TEXT = 'textmodel-3.6-flash'
const IMAGE = 'textmodel-3.1-flash-lite-image'
const SPEECH = 'speechvendor/flash-v2.5'
const TRANSCRIPTION = 'speechvendor/scribe-v2'

describe('an operator’s catalog file', () => {
  it('an empty catalog file changes nothing', () => {
    expect(override({})).toEqual(publishedCatalog)
    expect(override({ [TEXT]: {} }).version).toBe(publishedCatalog.version)
  })

  it('removes a disabled model', () => {
    const catalog = override({ [IMAGE]: { enabled: false } })
    expect(catalog.models).toHaveLength(9)
    expect(findModel(catalog, 'image_generation', IMAGE)).toBeUndefined()
    expect(catalog.version).not.toBe(publishedCatalog.version)
  })

  it('overrides prices and narrows limits in every category', () => {
    const catalog = override({
      [TEXT]: {
        enabled: true,
        input_per_million_tokens: '0.45',
        output_per_million_tokens: '2',
        context_window: 100_000,
        max_output_tokens: 8192,
        maximum_charge_usd: '0.5',
      },
      [IMAGE]: { price_per_successful_image_usd: '0.035' },
      [SPEECH]: { price_per_thousand_characters_usd: '0.2', maximum_characters: 1000, default_voice: 'jade' },
      [TRANSCRIPTION]: {
        price_per_audio_hour_usd: '0.1',
        maximum_audio_duration_ms: 60_000,
        maximum_audio_bytes: 1_000_000,
        minimum_charge_usd: '0.006',
      },
    })
    expect(findModel(catalog, 'text_generation', TEXT)).toMatchObject({
      inputPerMillionTokensUsd: '0.45',
      outputPerMillionTokensUsd: '2',
      contextWindow: 100_000,
      maximumOutputTokens: 8192,
      minimumChargeUsd: '0.002',
      maximumChargeUsd: '0.5',
    })
    expect(findModel(catalog, 'text_to_speech', SPEECH)).toMatchObject({
      pricePerThousandCharactersUsd: '0.2',
      maximumCharacters: 1000,
      defaultVoice: 'jade',
    })
    expect(findModel(catalog, 'speech_to_text', TRANSCRIPTION)).toMatchObject({
      pricePerAudioHourUsd: '0.1',
      maximumAudioDurationMs: 60_000,
      maximumAudioBytes: 1_000_000,
      minimumChargeUsd: '0.006',
    })
    expect(catalog.models).toHaveLength(10)
  })

  it.each([
    [{ 'textmodel-9': {} }, /no model "textmodel-9"; the models are textmodel-3.6-flash, /],
    [{ [TEXT]: { price_per_audio_hour_usd: '1' } }, /model "textmodel-3.6-flash".*price_per_audio_hour_usd/s],
    [{ [TEXT]: { enabled: 'no' } }, /model "textmodel-3.6-flash".*enabled/s],
    [{ [TEXT]: { input_per_million_tokens: 0.5 } }, /input_per_million_tokens/],
    [{ [TEXT]: { input_per_million_tokens: '-1' } }, /decimal dollars/],
    [{ [TEXT]: { input_per_million_tokens: '0.0000001' } }, /at most six decimals/],
    [{ [TEXT]: { max_output_tokens: 65_537 } }, /max_output_tokens is 65537; the published limit is 65536/],
    [{ [TEXT]: { max_output_tokens: 0 } }, /max_output_tokens/],
    [{ [TEXT]: { maximum_charge_usd: '0.766953' } }, /published 0.002 to 0.766952 USD/],
    [{ [TEXT]: { minimum_charge_usd: '0.001' } }, /published 0.002 to 0.766952 USD/],
    [{ [TEXT]: { minimum_charge_usd: '0.5', maximum_charge_usd: '0.4' } }, /bounds of a call/],
    [{ [IMAGE]: { price_per_successful_image_usd: '0.04' } }, /price_per_successful_image_usd.*0.035 to 0.035/],
    [{ [SPEECH]: { maximum_characters: 2001 } }, /maximum_characters is 2001; the published limit is 2000/],
    [{ [SPEECH]: { default_voice: 'nobody' } }, /no voice "nobody"/],
    [{ [TRANSCRIPTION]: { maximum_audio_duration_ms: 3_600_001 } }, /maximum_audio_duration_ms/],
  ])('rejects %j', (models, message) => {
    expect(() => override(models)).toThrow(message)
  })

  it('gives a voice a retirement date, which changes the version', () => {
    const catalog = voices({ eldrin: { retirement_date: '2027-01-31' }, talia: {}, jade: { retirement_date: null } })
    expect(catalog.voices.filter(({ retirementDate }) => retirementDate !== null)).toMatchObject([
      { id: 'eldrin', retirementDate: '2027-01-31' },
    ])
    expect(catalog.version).not.toBe(publishedCatalog.version)
  })

  it('rejects a retirement date of a default voice, of an unknown voice, and one that is no date', () => {
    const retired = { darian: { retirement_date: '2027-01-31' } }
    expect(() => voices(retired)).toThrow(
      /default voice "darian" has the retirement date 2027-01-31; set default_voice/,
    )
    expect(voices(retired, { [SPEECH]: { default_voice: 'talia' } }).models).toHaveLength(10)
    expect(() => voices({ alloy: {} })).toThrow(/no voice "alloy"; the voices are darian, talia, /)
    expect(() => voices({ talia: { retirement_date: 'soon' } })).toThrow(/voice "talia".*retirement_date/s)
    expect(() => voices({ talia: { name: 'Thalia' } })).toThrow(/voice "talia".*name/s)
  })

  it('rejects text that is not JSON and members other than models and voices', () => {
    expect(() => overrideCatalog(publishedCatalog, '{')).toThrow('not valid JSON')
    expect(() => overrideCatalog(publishedCatalog, '{"models":{},"model":{}}')).toThrow(/catalog file.*model/s)
    expect(() => overrideCatalog(publishedCatalog, '[]')).toThrow('catalog file')
  })
})
