import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type VendorPrices, vendorCost } from '#shared/catalog/vendor-cost.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import { compareInvoice, parseInvoice } from '../../../infra/commands/ledger/invoice.ts'
import { main } from '../../../infra/commands/ledger/main.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const PRICED: VendorPrices = {
  input_per_million_tokens: '0.3',
  output_per_million_tokens: '2.5',
  price_per_audio_hour_usd: '0.22',
  as_of: '2026-11-26',
  source: 'a test',
}
const COMMON = { adapter: 'openai-compatible', base_url: 'https://vendor.example/v1', api_key_env: 'VENDOR_KEY' }
const DEPLOYMENTS = {
  deployments: [
    { ...COMMON, name: 'flash-one', upstream_model: 'flash-2', serves: ['textmodel-3.6-flash'] },
    { ...COMMON, name: 'flash-two', upstream_model: 'flash-2', serves: ['textmodel-3.6-flash'] },
    { ...COMMON, name: 'scribe', upstream_model: 'scribe-2', serves: ['speechvendor/scribe-v2'] },
  ],
}
/** What the ledger records, by day and deployment. */
const WORK: readonly (readonly [string, string, Record<string, number>])[] = [
  ['2026-03-01', 'flash-one', { input_tokens: 1000, output_tokens: 200 }],
  ['2026-03-01', 'flash-two', { input_tokens: 500, output_tokens: 100, thinking_tokens: 40 }],
  [
    '2026-03-02',
    'flash-one',
    { input_tokens: 70_000, cached_input_tokens: 50_000, cache_write_tokens: 15_000, output_tokens: 9000 },
  ],
  ['2026-03-01', 'scribe', { input_audio_ms: 3_600_000 }],
  ['2026-03-02', 'scribe', { input_audio_ms: 90_500 }],
  ['2026-03-02', 'scribe', { input_audio_ms: 30_000 }],
]
/** The same as the vendor bills it. */
const LINES = [
  '2026-03-01,flash-2,input_tokens,1500,0.00045',
  '2026-03-01,flash-2,output_tokens,300,0.00075',
  '2026-03-02,flash-2,input_tokens,70000,0.021',
  '2026-03-02,flash-2,output_tokens,9000,0.0225',
  '2026-03-01,scribe,audio_hours,1,0.22',
  '2026-03-02,scribe,audio_minutes,2.01,0.007364',
]

const MODEL_OF = new Map(DEPLOYMENTS.deployments.map((each) => [each.name, each.upstream_model]))

let ledger: TestLedger
let folder: string
beforeAll(async () => {
  ledger = await createTestLedger()
  folder = await mkdtemp(join(tmpdir(), 'farebox-invoice-'))
  await importFirstFiles(ledger.pool, [{ kind: 'deployments', content: DEPLOYMENTS }])
  for (const [day, deployment, usage] of WORK) {
    const { id } = await jobInState(ledger, 'completed')
    await ledger.sql(
      `UPDATE upstream_attempts SET deployment = $2, usage = $3, vendor_cost = $4, finished_at = $5,
         vendor = 'vendor.example', upstream_model = $6 WHERE job_id = $1`,
      [
        id,
        deployment,
        usage,
        vendorCost(PRICED, usage)?.toString(),
        `${day}T23:59:59.999999Z`,
        MODEL_OF.get(deployment),
      ],
    )
  }
})

afterAll(async () => {
  await rm(folder, { recursive: true })
  await ledger.close()
})

async function check(lines: readonly string[], ...options: readonly string[]) {
  const file = join(folder, 'invoice.csv')
  await writeFile(file, ['day,model,unit,quantity,amount_usd', ...lines].join('\r\n'))
  const printed: string[] = []
  vi.spyOn(console, 'log').mockImplementation((text: string) => void printed.push(text))
  vi.spyOn(console, 'error').mockImplementation((text: string) => void printed.push(text))
  try {
    const exitCode = await main(['--invoice', file, ...options], { DATABASE_URL: ledger.url })
    return { exitCode, printed: printed.join('\n') }
  } finally {
    vi.restoreAllMocks()
  }
}

function workOf(day: string, deployment: string, upstreamModel: string, tokens: bigint) {
  return {
    day,
    deployment,
    vendor: 'vendor.example',
    upstreamModel,
    attempts: 1,
    unknown: 0,
    costAtomic: tokens,
    usage: { input_tokens: tokens },
  }
}

function invoiceOf(...lines: readonly string[]) {
  return parseInvoice(['day,model,unit,quantity,amount_usd', ...lines].join('\n'))
}

describe('an invoice of a vendor', () => {
  it('agrees with the ledger whether it names deployments or upstream models, in whichever units', async () => {
    const { exitCode, printed } = await check(LINES)
    expect(printed).toContain('Invoice and ledger agree.')
    expect(exitCode).toBe(0)
  })

  it('agrees where it bills input by its part in the prompt cache', async () => {
    const parts = [
      '2026-03-02,flash-2,uncached_input_tokens,5000,0.0015',
      '2026-03-02,flash-2,cached_input_tokens,50000,0.015',
      '2026-03-02,flash-2,cache_write_tokens,15000,0.0045',
    ]
    const { printed } = await check([...LINES.slice(0, 2), ...parts, ...LINES.slice(3)])
    expect(printed).toContain('Invoice and ledger agree.')
  })

  it('shows three planted differences, and nothing else', async () => {
    const planted = LINES.map((line) =>
      line
        .replace('input_tokens,1500,0.00045', 'input_tokens,1600,0.00045')
        .replace('output_tokens,9000,0.0225', 'output_tokens,9000,0.0325'),
    ).filter((line) => !line.startsWith('2026-03-01,scribe'))
    const { exitCode, printed } = await check(planted, '--json')
    expect(exitCode).toBe(1)
    expect(JSON.parse(printed)).toMatchObject({
      differences: [
        { day: '2026-03-01', model: 'flash-2', unit: 'input_tokens', invoiced: '1600', recorded: '1500' },
        { day: '2026-03-02', model: 'flash-2', unit: 'usd', invoiced: '53500', recorded: '43500' },
        { day: '2026-03-01', model: 'scribe', unit: 'usd', invoiced: '0', recorded: '220000' },
      ],
    })
  })

  it('names models without a deployment, deployments that it leaves out, and attempts without a cost', async () => {
    const { id } = await jobInState(ledger, 'failed')
    await ledger.sql(
      `UPDATE upstream_attempts SET state = 'failed_ambiguous', deployment = 'scribe', finished_at = '2026-03-02T01:00:00Z'
       WHERE job_id = $1`,
      [id],
    )
    const { exitCode, printed } = await check([...LINES.slice(4), '2026-03-02,sonnet,input_tokens,5,0.1'])
    expect(exitCode).toBe(1)
    expect(printed).toContain('No deployment was published as sonnet')
    expect(printed).toContain('with work on these days: flash-one (flash-2), flash-two (flash-2)')
    expect(printed).toContain('1 attempts have no cost in the ledger')
    expect(printed).toContain('Invoice and ledger agree.')
  })

  it('is refused when it names a deployment and its upstream model', async () => {
    const { exitCode, printed } = await check([...LINES, '2026-03-01,flash-one,input_tokens,1000,0.0003'])
    expect(exitCode).toBe(2)
    expect(printed).toContain('names flash-one in two ways')
  })

  describe('over a change of the upstream model', () => {
    beforeAll(async () => {
      const moved: readonly (readonly [string, string, string, string, number])[] = [
        ['2026-04-01', 'flash-one', 'vendor.example', 'flash-2', 1000],
        ['2026-04-02', 'flash-one', 'vendor.example', 'flash-3', 2000],
        ['2026-04-02', 'flash-two', 'other.example', 'flash-3', 4000],
      ]
      for (const [day, deployment, vendor, model, tokens] of moved) {
        const { id } = await jobInState(ledger, 'completed')
        const usage = { input_tokens: tokens, output_tokens: 0 }
        await ledger.sql(
          `UPDATE upstream_attempts SET deployment = $2, vendor = $3, upstream_model = $4, usage = $5, vendor_cost = $6,
             finished_at = $7 WHERE job_id = $1`,
          [id, deployment, vendor, model, usage, vendorCost(PRICED, usage)?.toString(), `${day}T12:00:00Z`],
        )
      }
      const changed = {
        deployments: DEPLOYMENTS.deployments.map((each) => ({
          ...each,
          upstream_model: `${each.upstream_model.slice(0, -1)}3`,
        })),
      }
      const author = { operator: 'ada', source: 'command' } as const
      await createConfigurationStore(ledger.pool).importFile(author, {
        kind: 'deployments',
        content: changed,
        reason: 'new',
      })
    })

    it('agrees, and for the vendor of two that have a model of the same name', async () => {
      const lines = ['2026-04-01,flash-2,input_tokens,1000,0.0003', '2026-04-02,flash-3,input_tokens,2000,0.0006']
      expect((await check(lines)).exitCode).toBe(1)
      const { exitCode, printed } = await check(lines, '--vendor', 'vendor.example')
      expect([exitCode, printed]).toEqual([0, expect.stringContaining('Invoice and ledger agree.')])
      // What it does not name is no difference.
      const unnamed = ['2026-04-01,flash-3,input_tokens,0,0', ...lines.slice(1)]
      const { printed: named } = await check(unnamed, '--vendor', 'vendor.example', '--json')
      expect(JSON.parse(named)).toMatchObject({ differences: [], notInvoiced: ['flash-one (flash-2)'] })
    })

    it('is refused for a vendor at which nothing was done on its days, with those that there were', async () => {
      const line = '2026-04-02,flash-3,input_tokens,2000,0.0006'
      const { exitCode, printed } = await check([line], '--vendor', 'vendor.exmaple')
      expect([exitCode, printed]).toEqual([2, expect.stringContaining('vendors: vendor.example, other.example')])
    })
  })

  describe('with a name of two meanings', () => {
    it('means the upstream model by what is a deployment’s name as well', () => {
      const work = [workOf('2026-05-01', 'flash-3', 'opus', 10n), workOf('2026-05-01', 'other', 'flash-3', 20n)]
      const published = new Map([
        ['flash-3', ['opus']],
        ['other', ['flash-3']],
      ])
      const lines = invoiceOf('2026-05-01,flash-3,input_tokens,20,0.00002')
      expect(compareInvoice(lines, work, published)).toMatchObject({ differences: [], notInvoiced: ['flash-3 (opus)'] })
    })
  })

  it('takes credits, and amounts of more decimals than it compares', async () => {
    const credited = [
      ...LINES,
      '2026-03-01,scribe,audio_hours,0,-0.02',
      '2026-03-01,scribe,audio_hours,0,0.020000000000001',
    ]
    expect((await check(credited)).printed).toContain('Invoice and ledger agree.')
  })

  it('prints no control characters of its names', async () => {
    const { printed } = await check([...LINES, '2026-03-01,"evil\u001b[2J",input_tokens,1,0.1'])
    expect(printed).toContain('No deployment was published as evil')
    expect(printed).not.toContain('\u001b')
    const { printed: refused } = await check(['2026-03-01,"evil"\u001b[2J,input_tokens,1,0.1'])
    expect(refused).toContain('the invoice is not CSV')
    expect(refused).not.toContain('\u001b')
  })

  it.each([
    ['2026-03-01,scribe,audio_hours,1', 'Invalid Record Length'],
    ['03/01/2026,scribe,audio_hours,1,0.22', 'line 2 of the invoice: day must be a UTC day'],
    ['2026-03-01,scribe,hours,1,0.22', 'line 2 of the invoice: unit must be one of'],
    ['2026-03-01,scribe,audio_hours,"1,5",0.22', 'line 2 of the invoice: quantity must be a decimal number'],
  ])('is refused with the line that is wrong: %s', async (line, says) => {
    const { exitCode, printed } = await check([line])
    expect(exitCode).toBe(2)
    expect(printed).toContain(says)
  })
})
