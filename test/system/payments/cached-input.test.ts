import { toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { textModels } from '#shared/catalog/published-models.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { publishContent, readInForce } from '#shared/operators/review-configuration.ts'
import { createFarebox, type Farebox, parseUsdc, type Wire, walletFromPrivateKey } from '../../../client/farebox.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { failedChecks, priceDifferences } from '../../support/payer/verify-receipt.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const STEPS = 11
const PREFIX_TOKENS = 25_000
/** Of the loop on prices and deployments as shipped. */
const SHIPPED_PREFIX_TOKENS = 24_800
/** By vendor: the model that only it serves here. */
const MODELS = {
  gemini: 'textmodel-3.6-flash',
  'openai-compatible': 'textmodel-3.5-flash',
  anthropic: 'textmodel-2.5-pro',
} as const
type Vendor = keyof typeof MODELS
/** What the catalog charges for any input, for that which is read from a cache, too. */
const UNCACHED_PRICES = { [MODELS.gemini]: '0.50', [MODELS['openai-compatible']]: '0.40', [MODELS.anthropic]: '1.25' }
/** A tenth of the input's price for reads, and 1.25 times it for writes, as the vendors' own lists have it. */
const CACHE_PRICES = {
  [MODELS.gemini]: { cached_input_per_million_tokens: '0.05', cache_write_per_million_tokens: '0.625' },
  [MODELS['openai-compatible']]: { cached_input_per_million_tokens: '0.04', cache_write_per_million_tokens: '0.5' },
  [MODELS.anthropic]: { cached_input_per_million_tokens: '0.125', cache_write_per_million_tokens: '1.5625' },
}

/** As shipped: no published prices, no other deployments. */
let shipped: TestSandbox
let sandbox: TestSandbox
let farebox: Farebox
beforeAll(async () => {
  sandbox = await startTestSandbox({
    apis: 2,
    environmentOf: (name): Record<string, string> => (name === 'api-2' ? { MINIMUM_CHARGE_FOLLOWS_GAS: 'true' } : {}),
    deployments: ({ deployments: all }) => ({
      deployments: all.flatMap((deployment) => {
        const model = MODELS[deployment.adapter as Vendor] as string | undefined
        if (model === undefined || !deployment.serves.includes(model)) return []
        return [{ ...deployment, serves: [model] }]
      }),
    }),
  })
  farebox = await openFarebox(sandbox)
  shipped = await startTestSandbox()
})
const openFarebox = ({ info }: TestSandbox, baseUrl = info.baseUrl) =>
  createFarebox({
    wallet: walletFromPrivateKey(info.payer.privateKey),
    baseUrl,
    rpcUrl: info.rpcUrl,
    journal: 'memory',
    terms: { asset: info.usdc, network: info.network },
  })
afterAll(async () => {
  await farebox.close()
  await Promise.all([sandbox.stop(), shipped.stop()])
})

/** Publishes prices of models, and waits until the API quotes with them. */
async function publishPrices(models: JsonValue): Promise<void> {
  const versionNow = async () => {
    const listed = await fetch(`${sandbox.info.baseUrl}/v1/pricing`)
    return ((await listed.json()) as { catalog_version: string }).catalog_version
  }
  const before = await versionNow()
  await withConnection(
    { connectionString: sandbox.info.databaseUrl, applicationName: 'farebox test' },
    async (pool) => {
      const store = createConfigurationStore(pool)
      const inForce = await readInForce(store)
      const change = { kind: 'catalog', content: { models }, reason: 'test', inForce } as const
      const published = await publishContent(store, { operator: 'ada', source: 'console' }, change)
      if (published.outcome !== 'published') throw new Error(JSON.stringify(published))
    },
  )
  await expect.poll(versionNow).not.toBe(before)
}

/** Text of about so many tokens of the simulated vendors, other ones for each seed. */
function longText(tokens: number, seed: string): string {
  const words = Array.from(
    { length: tokens - 2 },
    (_, index) => `w${String.fromCharCode(97 + (index % 26))}${index % 7 === 0 ? 'x' : 'yz'}`,
  )
  return `${seed} ${words.join(' ')}`
}

type Turn = { role: 'user' | 'assistant'; content: string }
type TextModelId = Wire.CreateChatCompletionRequest['model']

interface Step {
  readonly charged: bigint
  readonly verified: string
  readonly problems: readonly string[]
  readonly receiptId: string
  readonly input: number
  readonly cached: number
  readonly written: number
  readonly output: number
  readonly text: string
}

/** Makes one call of a conversation in the dialect of its vendor; Anthropic's marks the end of what is to be cached. */
async function ask(vendor: Vendor, system: string, turns: readonly Turn[]) {
  const model = MODELS[vendor]
  if (vendor === 'anthropic') {
    const request = { model, system, messages: [...turns], max_tokens: 100, cache_control: { type: 'ephemeral' } }
    const { result, payment } = await farebox.messages.create(request)
    const { input_tokens, cache_read_input_tokens: cached = 0, cache_creation_input_tokens: written = 0 } = result.usage
    const input = input_tokens + cached + written
    const text = result.content.map((block) => ('text' in block ? block.text : '')).join('')
    return stepOf(payment, { input, cached, written, output: result.usage.output_tokens, text })
  }
  return chat(farebox, model, system, turns)
}

async function chat(payer: Farebox, model: TextModelId, system: string, turns: readonly Turn[]) {
  const messages = [{ role: 'system', content: system }, ...turns]
  const { result, payment } = await payer.chat.create({ model, messages, max_tokens: 100 })
  const { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details } = result.usage
  return stepOf(payment, {
    input,
    cached: details?.cached_tokens ?? 0,
    written: details?.cache_write_tokens ?? 0,
    output,
    text: result.choices[0]?.message.content ?? '',
  })
}

function stepOf(
  { charged, verified, problems, receiptId }: Awaited<ReturnType<Farebox['chat']['create']>>['payment'],
  counts: Pick<Step, 'input' | 'cached' | 'written' | 'output' | 'text'>,
): Step {
  return { charged: parseUsdc(charged), verified, problems, receiptId: receiptId ?? '', ...counts }
}

/** Makes the calls of an agent whose conversation grows on one prefix. */
async function converse(
  seed: string,
  prefixTokens: number,
  askNext: (system: string, turns: readonly Turn[]) => Promise<Step>,
): Promise<readonly Step[]> {
  const system = longText(prefixTokens, seed)
  const turns: Turn[] = []
  const steps: Step[] = []
  for (let index = 1; index <= STEPS; index += 1) {
    turns.push({ role: 'user', content: `Step ${index}: ${longText(60, seed)}` })
    const step = await askNext(system, turns)
    turns.push({ role: 'assistant', content: step.text })
    steps.push(step)
  }
  return steps
}

const sum = (steps: readonly Step[], count: (step: Step) => number | bigint) =>
  steps.reduce((total, step) => total + Number(count(step)), 0)

describe.each(Object.keys(MODELS) as Vendor[])('11 steps on a prefix of 25,000 tokens at %s', (vendor) => {
  it('cost at most 0.35 of what they cost where cached input costs as any other, and every receipt is recomputed', async () => {
    const run = (seed: string) =>
      converse(`${seed} ${vendor}`, PREFIX_TOKENS, (system, turns) => ask(vendor, system, turns))
    const uncachedPrice = UNCACHED_PRICES[MODELS[vendor]]
    await publishPrices({ [MODELS[vendor]]: { cached_input_per_million_tokens: uncachedPrice } })
    const before = await run('before')
    await publishPrices({ [MODELS[vendor]]: CACHE_PRICES[MODELS[vendor]] })
    const after = await run('after')
    for (const { verified, problems } of [...before, ...after])
      expect({ verified, problems }).toEqual({ verified: 'passed', problems: [] })
    const [charged, uncached] = [sum(after, (step) => step.charged), sum(before, (step) => step.charged)]
    const [share, written] = [
      sum(after, ({ cached }) => cached) / sum(after, ({ input }) => input),
      sum(after, (step) => step.written),
    ]
    console.info(
      `${vendor}: ${uncached / 1e6} USDC before, ${charged / 1e6} after, ratio ${(charged / uncached).toFixed(3)}; ` +
        `${(share * 100).toFixed(1)} % of ${sum(after, ({ input }) => input)} input tokens cached, ${written} written`,
    )
    // The vendors cached as much before: only the price is new.
    expect(sum(before, ({ cached }) => cached)).toBeGreaterThan(0.8 * sum(before, ({ input }) => input))
    expect(share).toBeGreaterThan(0.85)
    expect(after[0]?.cached).toBe(0)
    expect(written > PREFIX_TOKENS).toBe(vendor === 'anthropic')
    expect(charged).toBeLessThanOrEqual(0.35 * uncached)
    expect(await vendorCosts(MODELS[vendor])).toEqual({ calls: 2 * STEPS, unlike: 0 })
  })
})

describe('11 steps on a prefix of 24,800 tokens on the sandbox as shipped', () => {
  it('cost at most 0.03 USDC on textmodel-2.5-flash, and less on every model than without a price for cached input', async () => {
    const payer = await openFarebox(shipped)
    onTestFinished(() => payer.close())
    const charges = new Map<string, number>()
    for (const { id, inputPerMillionTokensUsd: input, outputPerMillionTokensUsd: output } of textModels) {
      const steps = await converse(id, SHIPPED_PREFIX_TOKENS, (system, turns) =>
        chat(payer, id as TextModelId, system, turns),
      )
      expect(steps.filter(({ verified }) => verified !== 'passed')).toEqual([])
      expect(steps.flatMap(({ problems }) => problems)).toEqual([])
      const charged = sum(steps, (step) => step.charged)
      const uncached = sum(steps, (step) => step.input * Number(input) + step.output * Number(output))
      console.info(`${id}: ${charged / 1e6} USDC, without a price for cached input ${(uncached / 1e6).toFixed(6)}`)
      expect(charged).toBeLessThan(uncached)
      charges.set(id, charged)
    }
    expect(charges.get('textmodel-2.5-flash')).toBeLessThanOrEqual(30_000)
  })
})

/** Counts the calls of a model, and those whose vendor's cost is not that of its usage by the simulated vendors' prices. */
async function vendorCosts(model: string): Promise<{ calls: number; unlike: number }> {
  const attempts = await sandbox.sql<{ usage: Record<string, number>; vendor_cost: string }>(
    `SELECT usage, vendor_cost FROM upstream_attempts
     WHERE job_id IN (SELECT id FROM jobs WHERE public_model = $1)`,
    [model],
  )
  const unlike = attempts.filter(({ usage, vendor_cost: cost }) => {
    const { input_tokens: input = 0, cached_input_tokens: cached = 0, cache_write_tokens: written = 0 } = usage
    const millionths =
      (input - cached - written) * 80 + cached * 8 + written * 100 + (usage['output_tokens'] ?? 0) * 300
    return Number(cost) !== Math.ceil(millionths / 1000)
  })
  return { calls: attempts.length, unlike: unlike.length }
}

describe('the receipt of a call with cached input', () => {
  it('verifies for anybody, and differs from its catalog when the published cache price was not applied', async () => {
    await publishPrices(CACHE_PRICES)
    await ask('openai-compatible', longText(2000, 'verify'), [{ role: 'user', content: 'First.' }])
    const step = await ask('openai-compatible', longText(2000, 'verify'), [{ role: 'user', content: 'Second.' }])
    const { receipt } = await farebox.verify(step.receiptId)
    expect(receipt.usage).toMatchObject({ cached_input_tokens: step.cached })
    const lines = (receipt.calculation?.lines ?? []).map(({ usage, quantity }) => [usage, Number(quantity)])
    expect(lines.slice(0, 3)).toEqual([
      ['cached_input_tokens', step.cached],
      ['uncached_input_tokens', step.input - step.cached],
      ['cache_write_tokens', 0],
    ])
    expect(await failedChecks(sandbox.info, receipt)).toEqual([])
    const { cached_input_per_million_tokens_usd: _, ...prices } = receipt.unit_prices
    const { baseUrl } = sandbox.info
    expect(await priceDifferences(baseUrl, receipt)).toEqual([])
    expect(await priceDifferences(baseUrl, { ...receipt, unit_prices: prices })).toEqual([
      'cached_input_per_million_tokens_usd is missing',
    ])
  })
})

describe('a call at an API whose minimum charge follows the gas', () => {
  it('is charged what settling it was expected to cost, shown in quote, challenge and receipt, which anybody recomputes', async () => {
    const [, follower] = sandbox.info.baseUrls
    if (follower === undefined) throw new Error('there is no second API')
    // 97,000 gas at a base fee of 0.008 gwei and a tip of 0.001 gwei, at 4,000 USD.
    const gas = '0.003492'
    await callRpc(sandbox.info.rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(8_000_000n)])
    const other = await openFarebox(sandbox, follower)
    onTestFinished(() => other.close())
    const request = { model: MODELS.gemini, messages: [{ role: 'user' as const, content: 'Hi' }], max_tokens: 10 }
    const quoteGas = async () => (await other.quote({ operation: 'createChatCompletion', request })).price.amount
    await expect.poll(quoteGas).toBe(gas)
    const { payment } = await other.chat.create(request)
    const { receipt, checks } = await other.verify(payment.receiptId ?? '')
    expect(checks.filter(({ outcome }) => outcome === 'failed')).toEqual([])
    expect(receipt).toMatchObject({
      charge_usdc: gas,
      unit_prices: { minimum_charge_usd: '0.002', gas_minimum_charge_usd: gas },
      calculation: {
        minimum_atomic: '2000',
        gas_minimum_atomic: '3492',
        applied: 'gas_minimum',
        charge_atomic: '3492',
      },
    })
    expect(await failedChecks(sandbox.info, receipt)).toEqual([])
  })
})
