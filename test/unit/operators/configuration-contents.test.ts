import { describe, expect, it } from 'vitest'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import { compareConfigurations } from '#shared/operators/compare-configurations.ts'
import { problemOf } from '#shared/operators/validate-configuration.ts'

const SPEECH = 'speechvendor/flash-v2.5'
const TEXT = 'textmodel-2.5-pro'
const IMAGE = 'textmodel-3.1-flash-lite-image'

type Entry = DeploymentsFile['deployments'][number]

const deployment = (name: string, serves: readonly string[], more: Partial<Entry> = {}): Entry => ({
  name,
  adapter: 'gemini',
  base_url: 'http://127.0.0.1:9',
  upstream_model: 'any',
  serves: [...serves],
  priority: 0,
  weight: 1,
  ...more,
})
const all = deployment(
  'all',
  publishedCatalog.models.map(({ id }) => id),
)
const fileOf = (...deployments: readonly Entry[]) => ({ deployments: [...deployments] })
const catalogOf = (models: JsonValue) => ({ models })
const problem = (catalog: JsonValue, deployments: JsonValue = fileOf(all)) =>
  problemOf('catalog', { catalog, deployments })

describe('a draft', () => {
  it('that changes a price, narrows a limit and disables a model can be published', () => {
    const models = {
      [TEXT]: { input_per_million_tokens: '1.3', max_output_tokens: 4096 },
      [IMAGE]: { enabled: false },
    }
    expect(problem(catalogOf(models))).toBeNull()
  })

  it.each([
    ['a price of 0', { [TEXT]: { input_per_million_tokens: '0' } }, /input_per_million_tokens is 0; a price must be/],
    ['a price of 0.000', { [SPEECH]: { price_per_thousand_characters_usd: '0.000' } }, /must be above 0/],
    ['a price that is no decimal', { [TEXT]: { input_per_million_tokens: 'free' } }, /decimal dollars/],
    ['a price as a number', { [TEXT]: { input_per_million_tokens: 1 } }, /input_per_million_tokens/],
    ['a price below the minimum', { [IMAGE]: { price_per_successful_image_usd: '0.01' } }, /must lie within/],
    ['a minimum below the published one', { [TEXT]: { minimum_charge_usd: '0.001' } }, /published 0.002/],
    ['a maximum above the published one', { [TEXT]: { maximum_charge_usd: '5' } }, /published 0.002 to 0.766952/],
    ['a minimum above its maximum', { [TEXT]: { minimum_charge_usd: '0.5', maximum_charge_usd: '0.4' } }, /bounds/],
    ['a limit that is wider than published', { [TEXT]: { max_output_tokens: 65_537 } }, /published limit is 65536/],
    ['a limit of 0', { [TEXT]: { max_output_tokens: 0 } }, /max_output_tokens/],
    ['an unknown voice', { [SPEECH]: { default_voice: 'nobody' } }, /no voice "nobody"/],
    ['an unknown model', { 'textmodel-9': { enabled: true } }, /no model "textmodel-9"/],
    ['an unknown field', { [TEXT]: { price: '1' } }, /price/],
    ['a field of another category', { [TEXT]: { default_voice: 'talia' } }, /default_voice/],
    ['a NUL character', { [SPEECH]: { default_voice: 'a\u0000' } }, /NUL/],
  ])('with %s is refused', (_, models, message) => {
    expect(problem(catalogOf(models))).toMatch(message)
  })

  it.each([[null], [[]], ['text'], [1], [{}], [{ models: null }], [{ models: {}, prices: {} }]])(
    'of %j is refused',
    (content) => {
      expect(problem(content)).toMatch(/catalog file/)
    },
  )

  it('without a voice, since no deployment has the default one, is refused with what to do', () => {
    const speech = deployment('speech', [SPEECH], { voices: { talia: 'v1' } })
    expect(problem(catalogOf({}), fileOf(speech))).toMatch(/default voice "darian".*set default_voice.*talia/s)
    expect(problem(catalogOf({ [SPEECH]: { default_voice: 'talia' } }), fileOf(speech))).toBeNull()
  })

  it('of deployments that takes the default voice of the catalog in force away is refused', () => {
    const deployments = fileOf(deployment('speech', [SPEECH], { voices: { darian: 'v1' } }))
    const catalog = catalogOf({ [SPEECH]: { default_voice: 'talia' } })
    expect(problemOf('deployments', { catalog, deployments })).toMatch(/default voice "talia"/)
  })

  it.each([
    [fileOf(all, all), /used twice/],
    [{ deployments: [{ ...all, weight: 0 }] }, /weight/],
    [{ deployments: [{ ...all, api_key: 'sk-secret' }] }, /api_key/],
  ])('of unusable deployments is refused without quoting a value', (deployments, message) => {
    const sentence = problemOf('deployments', { catalog: catalogOf({}), deployments })
    expect(sentence).toMatch(message)
    expect(sentence).not.toContain('sk-secret')
  })
})

const drained = (name: string) => new Map([[name, { isDrained: true, weight: null }]])
const offered = (file: DeploymentsFile, controls = new Map<string, { isDrained: boolean; weight: number | null }>()) =>
  catalogsOf({ overrides: { models: {} }, file, controls }, 'withhold').offered
const idsOf = (catalog: { models: readonly { id: string }[] }) => catalog.models.map(({ id }) => id)

describe('a drained deployment', () => {
  it('that is the only one of a model takes the model off the offer', () => {
    const file = fileOf(deployment('text', [TEXT]), deployment('image', [IMAGE]))
    expect(idsOf(offered(file))).toEqual([TEXT, IMAGE])
    expect(idsOf(offered(file, drained('image')))).toEqual([TEXT])
  })

  it('changes nothing when another one serves the same', () => {
    const file = fileOf(deployment('one', [TEXT]), deployment('two', [TEXT]))
    expect(offered(file, drained('one'))).toEqual(offered(file))
  })

  it('takes the voices off the offer that only it has', () => {
    const file = fileOf(
      deployment('one', [SPEECH], { voices: { darian: 'a', talia: 'b' } }),
      deployment('two', [SPEECH], { voices: { darian: 'c' } }),
    )
    expect(offered(file, drained('one')).voices.map(({ id }) => id)).toEqual(['darian'])
  })

  it('takes the model off the offer when it alone has the default voice', () => {
    const file = fileOf(
      deployment('one', [SPEECH], { voices: { darian: 'a' } }),
      deployment('two', [SPEECH], { voices: { talia: 'c' } }),
    )
    expect(idsOf(offered(file, drained('one')))).toEqual([])
  })

  it('lowers the output limit to what the others can write', () => {
    const file = fileOf(
      deployment('one', [TEXT]),
      deployment('two', [TEXT], { options: { maximum_output_tokens: 8192 } }),
      deployment('three', [TEXT], { options: { maximum_output_tokens: 4096 } }),
    )
    const limitOf = (catalog: ReturnType<typeof offered>) => catalog.models[0]
    expect(limitOf(offered(file))).toMatchObject({ maximumOutputTokens: 65_536 })
    expect(limitOf(offered(file, drained('one')))).toMatchObject({ maximumOutputTokens: 8192 })
  })
})

describe('the difference of two configurations', () => {
  const before = { catalog: catalogOf({}), deployments: fileOf(all) }

  it('names each price that changes, and the models that are no longer offered', () => {
    const catalog = catalogOf({ [TEXT]: { input_per_million_tokens: '1.3' }, [IMAGE]: { enabled: false } })
    const { changes, offers } = compareConfigurations('catalog', before, { ...before, catalog })
    expect(changes).toEqual([
      { subject: `model ${TEXT}`, field: 'input per million tokens usd', before: '1.25', after: '1.3' },
      { subject: `model ${IMAGE}`, field: null, before: 'removed', after: null },
    ])
    expect(offers).toEqual(changes)
  })

  it('names deployments that are added, removed and changed, and what callers lose by it', () => {
    const deployments = fileOf(deployment('new', [TEXT], { weight: 3 }))
    const { changes, offers } = compareConfigurations('deployments', before, { ...before, deployments })
    expect(changes.map(({ subject, after }) => [subject, after])).toEqual([
      ['deployment all', null],
      ['deployment new', 'added'],
    ])
    expect(offers).toContainEqual({ subject: `model ${IMAGE}`, field: null, before: 'removed', after: null })
    const heavier = compareConfigurations(
      'deployments',
      { ...before, deployments },
      {
        ...before,
        deployments: fileOf(deployment('new', [TEXT], { weight: 5 })),
      },
    )
    expect(heavier).toEqual({
      changes: [{ subject: 'deployment new', field: 'weight', before: '3', after: '5' }],
      offers: [],
    })
  })

  it('is empty for the same content in other words', () => {
    expect(compareConfigurations('catalog', before, { ...before, catalog: catalogOf({ [TEXT]: {} }) }).changes).toEqual(
      [],
    )
  })
})
