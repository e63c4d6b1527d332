import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import { createCatalog } from '#shared/catalog/catalog.ts'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import { catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import { compareConfigurations } from '#shared/operators/compare-configurations.ts'
import type { Configuration } from '#shared/operators/configuration.ts'
import { removedDeployments } from '#shared/operators/controlled-deployments.ts'
import { type PastCall, priceAgain } from '#shared/operators/price-again.ts'
import { problemOf, readDeploymentsContent, type WorkerKeys } from '#shared/operators/validate-configuration.ts'
import { watchConfiguration } from '#shared/operators/watch-configuration.ts'
import { whatIf } from '#shared/operators/what-if.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { watchAudit } from '../../operator/sessions/watch-audit.ts'

const configurationOf = (revision: bigint): Configuration => ({
  revision,
  catalog: { number: 0n, overrides: { models: {} } },
  deployments: { number: 1n, file: { deployments: [] } },
  controls: new Map(),
})
/** A watch over a configuration that the test changes. */
function startWatch(first: bigint | null) {
  const state = {
    revision: first,
    paused: new Array<QueueName>(),
    isReachable: true,
    isReadable: true,
    isUsable: true,
    readings: 0,
    polls: 0,
    prepared: 0,
  }
  const [applied, switched, errors]: [bigint[], QueueName[][], unknown[]] = [[], [], []]
  const logger: Logger = { info: () => undefined, warn: () => undefined, error: (message) => void errors.push(message) }
  const requireReachable = () => {
    if (!state.isReachable) throw new Error('unreachable')
  }
  const watch = watchConfiguration({
    reader: {
      readRevision: async () => {
        state.polls += 1
        requireReachable()
        return state.revision ?? 0n
      },
      readSwitches: async () => ({ pausedQueues: new Set(state.paused), blockedPayers: new Map() }),
      readConfiguration: async () => {
        state.readings += 1
        if (!state.isReadable) throw new Error('not readable')
        return state.revision === null ? null : configurationOf(state.revision)
      },
    },
    prepare: async () => {
      requireReachable()
      state.prepared += 1
    },
    applySwitches: ({ pausedQueues }) => void switched.push([...pausedQueues]),
    apply: async ({ revision }) => {
      if (!state.isUsable) throw new Error('not usable')
      applied.push(revision)
    },
    logger,
    pollMs: 1,
  })
  return { state, applied, switched, errors, watch }
}
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
const drained = (name: string) => new Map([[name, { isDrained: true, weight: null }]])
const offered = (file: DeploymentsFile, controls = new Map<string, { isDrained: boolean; weight: number | null }>()) =>
  catalogsOf({ overrides: { models: {} }, file, controls }, 'withhold').offered
const idsOf = (catalog: { models: readonly { id: string }[] }) => catalog.models.map(({ id }) => id)
const AUDIO = { sha256: 'a'.repeat(64), bytes: 1000, durationMs: 1_800_000 }
/** One request of each operation with the usage that it might be measured with. */
const CALLS = [
  [
    'createChatCompletion',
    { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'x'.repeat(9000) }], max_tokens: 4000 },
    { input_tokens: 2500, output_tokens: 3100 },
  ],
  [
    'createMessage',
    { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'x'.repeat(9000) }], max_tokens: 4000 },
    { input_tokens: 2500, output_tokens: 3100 },
  ],
  ['createImageGeneration', { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }, { images: 1 }],
  ['createSpeech', { model: 'speechvendor/flash-v2.5', input: 'x'.repeat(1500) }, { input_characters: 1500 }],
  ['createTranscription', { model: 'speechvendor/scribe-v2' }, { input_audio_ms: 1_800_000 }],
] as const
/** Other prices and bounds for every model. */
const other = createCatalog({
  ...publishedCatalog,
  models: publishedCatalog.models.map((model) => ({
    ...model,
    inputPerMillionTokensUsd: '2.75',
    outputPerMillionTokensUsd: '12.5',
    pricePerImageUsd: '0.05',
    pricePerThousandCharactersUsd: '0.3',
    pricePerAudioHourUsd: '0.2',
    minimumChargeUsd: '0.004',
    maximumChargeUsd: '0.9',
  })),
})
function pastCall(operationId: string, body: object, usage: JsonValue | null): PastCall {
  const operation = operationById(operationId)
  const quote = quoteUnder(operationId, body, publishedCatalog)
  return {
    jobId: crypto.randomUUID(),
    acceptedAt: new Date(),
    operation: operationId,
    model: (body as { model: string }).model,
    terms: quote.terms,
    usage,
    quotedMaximum: quote.quotedMaximum,
    charge: usage === null ? null : operation.charge(usage, quote.terms),
  }
}
function quoteUnder(operationId: string, body: object, catalog: typeof publishedCatalog) {
  const operation = operationById(operationId)
  const audio = operation.upload === null ? null : AUDIO
  return operation.quote(operation.effectiveRequest(operation.bodySchema.parse(body), audio, catalog), catalog)
}
const total = (amounts: readonly (bigint | null)[]) =>
  atomicAmount(amounts.reduce<bigint>((sum, amount) => sum + (amount ?? 0n), 0n))

describe('the watch of the configuration', () => {
  it('applies what is in force at the start, and each change once', async () => {
    const { state, applied, watch } = startWatch(3n)
    await watch.firstPoll
    expect(watch.appliedRevision()).toBe(3n)
    state.revision = 5n
    await expect.poll(() => watch.appliedRevision()).toBe(5n)
    const { polls } = state
    await expect.poll(() => state.polls).toBeGreaterThan(polls + 5)
    await watch.close()
    expect(applied).toEqual([3n, 5n])
    expect(state.readings).toBe(2)
    expect(state.prepared).toBe(1)
  })

  it('applies nothing before the first publication', async () => {
    const { state, applied, watch } = startWatch(null)
    await watch.firstPoll
    expect(watch.appliedRevision()).toBeNull()
    state.revision = 1n
    await expect.poll(() => applied).toEqual([1n])
    await watch.close()
  })

  it('keeps the last configuration while the database is out, and reports it once', async () => {
    const { state, applied, errors, watch } = startWatch(1n)
    await watch.firstPoll
    state.isReachable = false
    const { polls } = state
    await expect.poll(() => state.polls).toBeGreaterThan(polls + 5)
    expect(watch.appliedRevision()).toBe(1n)
    expect(errors).toHaveLength(1)
    Object.assign(state, { isReachable: true, revision: 2n })
    await expect.poll(() => applied).toEqual([1n, 2n])
    await watch.close()
  })

  it('prepares again until the database can be reached', async () => {
    const { state, watch } = startWatch(1n)
    await watch.close()
    const late = startWatch(1n)
    late.state.isReachable = false
    expect(state.prepared).toBe(1)
    await late.watch.firstPoll
    late.state.isReachable = true
    await expect.poll(() => late.watch.appliedRevision()).toBe(1n)
    await late.watch.close()
  })

  it('a configuration that cannot be applied leaves the last one in force and is tried again', async () => {
    const { state, errors, watch } = startWatch(1n)
    await watch.firstPoll
    Object.assign(state, { isUsable: false, revision: 2n })
    await expect.poll(() => errors.length).toBe(1)
    expect(watch.appliedRevision()).toBe(1n)
    state.isUsable = true
    await expect.poll(() => watch.appliedRevision()).toBe(2n)
    await watch.close()
  })

  it('what operators pause and block acts although what they published cannot be read', async () => {
    const { state, switched, watch } = startWatch(1n)
    await watch.firstPoll
    Object.assign(state, { isReadable: false, revision: 2n, paused: ['text'] })
    await expect.poll(() => switched.at(-1)).toEqual(['text'])
    expect(watch.appliedRevision()).toBe(1n)
    await watch.close()
  })
})

it('a console that could not read the audit reports no number of its actions: 0 would be an audit that was deleted', async () => {
  const metrics = new Registry()
  const warnings: string[] = []
  const watch = watchAudit({
    actions: { readAuditHead: () => Promise.reject(new Error('the database is down')) },
    metrics,
    logger: { info: () => undefined, warn: (message) => void warnings.push(message) },
  })
  await expect.poll(() => warnings).toEqual(['the end of the audit was not read'])
  expect(await metrics.metrics()).not.toMatch(/^farebox_audit_actions/m)
  await watch.stop()
})

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

const GEMINI = 'https://generativelanguage.googleapis.com'
const worker = (instance: string, origin: string) => ({ instance, providerKeys: { GEMINI_API_KEY: [origin] } })
const keyed = (api_key_env: string, base_url: string) => fileOf({ ...all, api_key_env, base_url: `${base_url}/v1` })
const refusal = (deployments: DeploymentsFile, workers: readonly WorkerKeys[]) =>
  problemOf('deployments', { catalog: catalogOf({}), deployments, workers })
describe('a key in a draft of deployments', () => {
  it.each(['SETTLEMENT_PRIVATE_KEYS', 'DATABASE_URL', 'S3_SECRET_ACCESS_KEY', 'CHALLENGE_SECRET', 'PROVIDER_KEYS'])(
    'is not %s, whether or not a worker runs, nor in a file',
    (name) => {
      const file = keyed(name, GEMINI)
      expect(refusal(file, [])).toBe(`deployment all: ${name} is a setting of farebox, which no vendor may get`)
      expect(() => readDeploymentsContent(JSON.stringify(file))).toThrow(`deployment all: ${name} is a setting`)
    },
  )

  it('goes only where every running worker sends it; the one that does not is named', () => {
    const file = keyed('GEMINI_API_KEY', GEMINI)
    expect(refusal(file, [worker('w-1', GEMINI)])).toBeNull()
    expect(refusal(file, [worker('w-1', GEMINI), worker('w-2', 'https://other.test')])).toMatch(
      /^deployment all, worker w-2: GEMINI_API_KEY may not be sent to https:\/\/generativelanguage.googleapis.com:/,
    )
    expect(refusal(keyed('GEMINI_API_KEY', 'https://evil.test'), [worker('w-1', GEMINI)])).toMatch(/worker w-1/)
  })
})

describe('a deployment that publications removed', () => {
  const old = fileOf(deployment('one', [TEXT]), deployment('two', [TEXT, IMAGE]), deployment('three', [IMAGE]))
  const newer = fileOf(deployment('one', [TEXT], { weight: 4 }), deployment('two', [IMAGE]))
  const removed = (model: string, file: DeploymentsFile, controls: Configuration['controls'] = new Map()) =>
    removedDeployments({ deployments: { number: 3n, file }, controls }, [newer, old], model)
      .map(({ name, weight }) => `${name} ${weight}`)
      .sort()

  it('of a model is known as it was published last, also when it serves another model still', () => {
    expect(removed(TEXT, fileOf(all))).toEqual(['one 4', 'two 1'])
    expect(removed(TEXT, fileOf(deployment('two', [IMAGE])))).toEqual(['one 4', 'two 1'])
    expect(removed(TEXT, fileOf(deployment('two', [TEXT])))).toEqual(['one 4'])
    expect(removed(SPEECH, fileOf())).toEqual([])
  })

  it('is not called any more once it is drained', () => {
    expect(removed(IMAGE, fileOf(), drained('two'))).toEqual(['three 1'])
  })
})

describe('a drained deployment', () => {
  it('that is the only one of a model takes the model off the offer', () => {
    const file = fileOf(deployment('text', [TEXT]), deployment('image', [IMAGE]))
    expect(idsOf(offered(file))).toEqual([TEXT, IMAGE])
    expect(idsOf(offered(file, drained('image')))).toEqual([TEXT])
  })

  it('changes nothing of what is published when another one serves the same', () => {
    const file = fileOf(deployment('one', [TEXT]), deployment('two', [TEXT]))
    const { carriers: all, ...published } = offered(file)
    const { carriers: left, ...stillPublished } = offered(file, drained('one'))
    expect(stillPublished).toEqual(published)
    expect([all?.[TEXT], left?.[TEXT]].map((serving) => serving?.length)).toEqual([2, 1])
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

describe('a past call under another catalog', () => {
  it.each(CALLS)('%s costs what a quote of that catalog would have charged', (operationId, body, usage) => {
    const quote = quoteUnder(operationId, body, other)
    expect(priceAgain(pastCall(operationId, body, usage), other)).toEqual({
      outcome: 'priced',
      quotedMaximum: quote.quotedMaximum,
      charge: operationById(operationId).charge(usage, quote.terms),
    })
  })

  it.each(CALLS)('%s costs the same under its own catalog', (operationId, body, usage) => {
    const call = pastCall(operationId, body, usage)
    const { quotedMaximum, charge } = call
    expect(priceAgain(call, publishedCatalog)).toEqual({ outcome: 'priced', quotedMaximum, charge })
  })

  it('a call is charged by the prices of the prompt cache that its catalog has, and by none that it lacks', () => {
    const [[operationId, body]] = CALLS
    const usage = { input_tokens: 2500, cached_input_tokens: 2000, cache_write_tokens: 300, output_tokens: 3100 }
    const cached = overrideCatalogWith(publishedCatalog, {
      models: {
        'textmodel-2.5-pro': { cached_input_per_million_tokens: '0.05', cache_write_per_million_tokens: '1.3' },
      },
    })
    const call = pastCall(operationId, body, usage)
    const { terms, quotedMaximum } = quoteUnder(operationId, body, cached)
    const charge = operationById(operationId).charge(usage, terms)
    expect(priceAgain(call, cached)).toEqual({ outcome: 'priced', quotedMaximum, charge })
    expect(charge).toBeLessThan(call.charge ?? 0n)
    expect(priceAgain({ ...call, terms, quotedMaximum, charge }, publishedCatalog)).toEqual({
      outcome: 'priced',
      quotedMaximum: call.quotedMaximum,
      charge: call.charge,
    })
  })

  it('a call without a result has a maximum and no charge', () => {
    const [[operationId, body]] = CALLS
    expect(priceAgain(pastCall(operationId, body, null), other)).toMatchObject({ charge: null })
  })

  it.each([
    ['a model that is not offered', { 'textmodel-2.5-pro': { enabled: false } }, 'textmodel-2.5-pro is not offered'],
    ['more output than its limit', { 'textmodel-2.5-pro': { max_output_tokens: 3999 } }, '4000 output tokens'],
    ['more tokens than its window', { 'textmodel-2.5-pro': { context_window: 9000 } }, 'above the limit of 9000'],
    ['a maximum above its bound', { 'textmodel-2.5-pro': { maximum_charge_usd: '0.01' } }, 'above the bound of 0.01'],
  ])('a call with %s is refused', (_, models, why) => {
    const [[operationId, body, usage]] = CALLS
    const draft = overrideCatalogWith(publishedCatalog, { models })
    expect(priceAgain(pastCall(operationId, body, usage), draft)).toEqual({
      outcome: 'refused',
      why: expect.stringContaining(why),
    })
  })
})

const hours = (price: string) =>
  overrideCatalogWith(publishedCatalog, {
    models: { 'speechvendor/scribe-v2': { price_per_audio_hour_usd: price } },
  })

describe('what a draft would change about past calls', () => {
  const calls = CALLS.map(([operationId, body, usage]) => pastCall(operationId, body, usage))
  const inForce = publishedCatalog

  it('sums up charges and maxima of all calls, and by model', () => {
    const { total: all, byModel } = whatIf(calls, { inForce, draft: other })
    const priced = calls.map((call) => priceAgain(call, other))
    const [charged, quoted] = [
      total(calls.map(({ charge }) => charge)),
      total(calls.map(({ quotedMaximum }) => quotedMaximum)),
    ]
    expect(all).toEqual({
      calls: 5,
      refused: 0,
      charged: {
        past: charged,
        inForce: charged,
        draft: total(priced.map((one) => (one.outcome === 'priced' ? one.charge : null))),
      },
      quoted: {
        past: quoted,
        inForce: quoted,
        draft: total(priced.map((one) => (one.outcome === 'priced' ? one.quotedMaximum : null))),
      },
    })
    expect(byModel.map(({ model, calls: count }) => [model, count])).toEqual([
      ['speechvendor/flash-v2.5', 1],
      ['speechvendor/scribe-v2', 1],
      ['textmodel-2.5-pro', 2],
      ['textmodel-3.1-flash-lite-image', 1],
    ])
  })

  it('shows a rise as a rise, also of calls that an older catalog charged more for', () => {
    const recordings = calls.filter(({ model }) => model === 'speechvendor/scribe-v2')
    const { total: all, examples } = whatIf(recordings, { inForce: hours('0.05'), draft: hours('0.1') })
    // Half an hour.
    expect(all.charged).toEqual({ past: 61_000n, inForce: 25_000n, draft: 50_000n })
    expect(examples).toMatchObject([{ difference: 25_000n }])
  })

  it('a refused call is counted and not summed up', () => {
    const draft = overrideCatalogWith(publishedCatalog, { models: { 'textmodel-2.5-pro': { enabled: false } } })
    expect(whatIf(calls, { inForce, draft }).total).toMatchObject({ calls: 5, refused: 2 })
    const offeredAgain = whatIf(calls, { inForce: draft, draft: inForce })
    expect(offeredAgain.total).toMatchObject({ calls: 5, refused: 0 })
    expect(offeredAgain.total.charged.past).toBe(total(calls.slice(2).map(({ charge }) => charge)))
    expect(offeredAgain.examples.map(({ difference }) => difference > 0n)).toEqual([true, true])
  })

  it('names the calls that the draft changes most first, and none that stays as it is in force', () => {
    const { examples } = whatIf(calls, { inForce, draft: other })
    const sizes = examples.map(({ difference }) => (difference < 0n ? -difference : difference))
    expect(sizes.length).toBeGreaterThan(0)
    expect(sizes).toEqual(sizes.toSorted((left, right) => Number(right - left)))
    expect(whatIf(calls, { inForce: other, draft: other }).examples).toEqual([])
  })
})
