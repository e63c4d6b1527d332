import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { compareWithCost, describeBelowCost } from '#shared/catalog/vendor-cost.ts'
import { catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import type { ApiConfig } from '../../api/config.ts'
import { checkPrices } from '../../infra/commands/preflight/check-prices.ts'
import { createDeployments } from '../../workers/providers/create-deployments.ts'

const PATH = fileURLToPath(new URL('../../infra/deployments.local.example.json', import.meta.url))
const PAGE = readFileSync(new URL('../../infra/own-engines.md', import.meta.url), 'utf8')
const FILE = parseDeploymentsFile(readFileSync(PATH, 'utf8'))

/** What a busy hour of the page's machine costs, in dollars: hardware, and electricity of it and the idle hours beside it. */
function costOfBusyHour(busyShare: number): number {
  const [price, years, watts, idleWatts, kilowattHour] = [2400, 3, 350, 60, 0.3]
  const idleHours = 1 / busyShare - 1
  const electricity = ((watts + idleHours * idleWatts) / 1000) * kilowattHour
  return price / (years * 8760 * busyShare) + electricity
}

/** Returns the price of so many units, of which the machine does some in a busy second; rounded up to what a file takes. */
function priceOf(units: number, perSecond: number, busyShare = 0.25): string {
  const dollars = (units / perSecond / 3600) * costOfBusyHour(busyShare)
  return (Math.ceil(dollars * 1e6 - 1e-9) / 1e6).toFixed(6)
}

/** What the page says of each deployment: what a busy second does, and what that costs. */
const rows = new Map(
  [...PAGE.matchAll(/^\| `([\w-]+)`\s+\| (.*?)\s*\| (.*?)\s*\|/gm)].map(([, name = '', does = '', costs = '']) => [
    name,
    { does: numbersOf(does), costs: costs.match(/\d+\.\d{6}/g) ?? [] },
  ]),
)

function numbersOf(text: string): number[] {
  return (text.match(/\d[\d,]*/g) ?? []).map((number) => Number(number.replaceAll(',', '')))
}

/** The units of each price of a file. */
const UNITS = {
  price_per_audio_hour_usd: 3600,
  price_per_thousand_characters_usd: 1000,
  input_per_million_tokens: 1_000_000,
  cached_input_per_million_tokens: 1_000_000,
  output_per_million_tokens: 1_000_000,
} as const

describe('deployments.local.example.json', () => {
  it('is usable as it is, without any key', () => {
    const deployments = createDeployments(FILE, {
      environment: {},
      providerKeys: providerKeysOf(FILE),
      http: () => Promise.reject(new Error('no call')),
    })
    expect(deployments.map(({ name }) => name)).toEqual(['whisper-cpp', 'speaches', 'vllm', 'ollama', 'kokoro-fastapi'])
  })

  it('offers its models with all voices and the times of words, and neither speakers nor sounds', () => {
    const { offered } = catalogsOf({ overrides: { models: {} }, file: FILE }, 'refuse')
    expect(offered.voices).toHaveLength(20)
    expect(offered.models.map(({ id }) => id)).toEqual([
      'textmodel-3.6-flash',
      'textmodel-3.5-flash-lite',
      'speechvendor/flash-v2.5',
      'speechvendor/scribe-v2',
    ])
    expect(offered.models.at(-1)).toMatchObject({
      supportedOptions: {
        diarize: [false],
        tag_audio_events: [false],
        timestamps: ['none', 'word'],
        response_format: ['json', 'verbose_json'],
      },
    })
  })

  it('has the prices that the page computes from hardware and electricity, each in the table', () => {
    expect(PAGE).toContain(`**${(Math.ceil(costOfBusyHour(0.25) * 1e6) / 1e6).toFixed(6)} USD**`)
    for (const { name, prices } of FILE.deployments) {
      const { does, costs } = rows.get(name) ?? { does: [], costs: [] }
      const fields = Object.keys(UNITS).filter((field) => field in (prices ?? {})) as (keyof typeof UNITS)[]
      expect(does).toHaveLength(fields.length)
      const computed = fields.map((field, index) => priceOf(UNITS[field], does[index] ?? 0))
      expect(fields.map((field) => prices?.[field])).toEqual(computed)
      expect(costs).toEqual(computed)
    }
  })

  it('sells nothing below cost, as preflight finds', async () => {
    expect(compareWithCost(catalogsOf({ overrides: { models: {} }, file: FILE }, 'refuse').published, FILE)).toEqual({
      belowCost: [],
      withoutPrices: [],
    })
    expect(await checkPrices({ DEPLOYMENTS_FILE: PATH } as ApiConfig)).toMatchObject({ outcome: 'passed' })
  })

  it('would sell a model below cost on a machine that is idle as long as the page says', () => {
    expect(PAGE).toContain(`costs ${costOfBusyHour(0.025).toFixed(6)} USD a busy hour`)
    const deployments = FILE.deployments.map((entry) => {
      const [input, output] = rows.get('ollama')?.does ?? []
      const idle = {
        input_per_million_tokens: priceOf(1_000_000, input ?? 0, 0.025),
        output_per_million_tokens: priceOf(1_000_000, output ?? 0, 0.025),
      }
      return entry.name === 'ollama' && entry.prices ? { ...entry, prices: { ...entry.prices, ...idle } } : entry
    })
    const { published } = catalogsOf({ overrides: { models: {} }, file: FILE }, 'refuse')
    expect(compareWithCost(published, { deployments }).belowCost.map(describeBelowCost)).toContainEqual(
      expect.stringMatching(/^textmodel-3\.6-flash is sold below cost: .*, and ollama costs /),
    )
  })
})

describe('the page about own engines', () => {
  it('has at most 40 lines', () => {
    expect(PAGE.trimEnd().split('\n').length).toBeLessThanOrEqual(40)
  })

  it('shows what each model is sold for', () => {
    const { published } = catalogsOf({ overrides: { models: {} }, file: FILE }, 'refuse')
    const sold = published.models.flatMap((model) => {
      if (!FILE.deployments.some(({ serves }) => serves.includes(model.id))) return []
      switch (model.category) {
        case 'text_generation':
          return [model.inputPerMillionTokensUsd, model.outputPerMillionTokensUsd]
        case 'text_to_speech':
          return [model.pricePerThousandCharactersUsd]
        case 'speech_to_text':
          return [model.pricePerAudioHourUsd]
        case 'image_generation':
          return []
      }
    })
    const table = PAGE.slice(PAGE.indexOf('is sold for'))
    for (const price of sold)
      expect(table).toMatch(new RegExp(`\\| .*\\b${price.replace(/\.?0+$/, '').replace('.', '\\.')}`))
  })
})
