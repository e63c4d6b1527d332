import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ProviderKeys } from '#shared/catalog/provider-keys.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { type ConfigurationStore, createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { readForms } from '../../support/console/read-markup.ts'
import { startTestConsole, TEST_PASSWORD, type TestConsole } from '../../support/console/test-console.ts'
import { acceptTestJob, called, claimTestJob, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { unknownSettlement } from '../../support/ledger/open-item.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { TEST_CONTRACT } from '../../support/ledger/test-batch.ts'

function withoutSessions(fingerprint: string): string {
  return fingerprint.replace(/^(operator_sessions|process_reports) .*$/gm, '')
}
const NAME = 'first'
const deployment = (name: string, ...serves: string[]) => ({
  name,
  adapter: 'gemini',
  base_url: 'http://127.0.0.1:9',
  api_key_env: 'VENDOR_KEY',
  upstream_model: 'upstream-model',
  weight: 3,
  serves,
})
const stateOf = (changes = {}) => ({
  circuit: 'closed' as const,
  activeCalls: 0,
  isDrained: false,
  weight: 3,
  ...changes,
})
const TRANSCRIPTION = 'speechvendor/scribe-v2'
const catalogOf = (price: string) => ({ models: { [TRANSCRIPTION]: { price_per_audio_hour_usd: price } } })
const deployments = sandboxDeployments({
  upstreamUrl: 'http://127.0.0.1:9',
  apiKeyEnv: 'KEY',
  models: publishedCatalog.models,
  voices: publishedCatalog.voices.map(({ id }) => id),
}) as unknown as JsonValue
/** Returns the text of each row of tables. */
function cellsOf(page: string): readonly string[] {
  const rows = [...page.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) => row)
  return rows.map((row) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  )
}
/** Returns how many failed, how many of them without a provider call, and where the count leads. */
function failedToday(page: string) {
  const [, link = '', failed, without] =
    /Failed<\/p><p class="value"><a href="([^"]*)">(\d+)<.*?(\d+) without a provider call/s.exec(page) ?? []
  return { failed: Number(failed), without: Number(without), link: link.replaceAll('&amp;', '&') }
}
/** Returns the hidden fields of the form with this action. */
function hiddenFields(page: string, action: string): Record<string, string> {
  const form = page.split('<form').find((part) => part.includes(`action="${action}"`)) ?? ''
  const inputs = form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]))
}
async function saveDraft(visitor: ConsoleVisitor, content: unknown) {
  const page = (await visitor.get('/operator/catalog')).body
  return await visitor.submit('/operator/catalog/draft', {
    ...hiddenFields(page, '/operator/catalog/draft'),
    content: typeof content === 'string' ? content : JSON.stringify(content),
  })
}

const keyed = (api_key_env: string, base_url: string) => ({
  deployments: [{ ...deployment('keyed', 'textmodel-2.5-pro'), adapter: 'gemini', api_key_env, base_url }],
})
const saveDeployments = async (visitor: ConsoleVisitor, content: object) => {
  const fields = hiddenFields((await visitor.get('/operator/deployments')).body, '/operator/deployments/draft')
  return await visitor.submit('/operator/deployments/draft', { ...fields, content: JSON.stringify(content) })
}
const publishDeployments = async (visitor: ConsoleVisitor, password?: string) => {
  const { body } = await visitor.get('/operator/deployments')
  const fields = hiddenFields(body, '/operator/deployments/publish')
  const answer = await visitor.submit('/operator/deployments/publish', {
    ...fields,
    reason: 'a new vendor',
    ...(password === undefined ? {} : { password }),
  })
  return { page: body, ...answer }
}
describe('the pages on money', () => {
  let running: TestConsole
  let actor: ConsoleVisitor
  let reader: ConsoleVisitor
  beforeAll(async () => {
    running = await startTestConsole()
    actor = await running.signIn('act')
    reader = await running.signIn('read')
  })

  afterAll(() => running.close())

  async function textOf(address: string, status = 200): Promise<string> {
    const answer = await reader.get(address)
    if (answer.status !== status) throw new Error(`${address} answers ${answer.status}: ${answer.body}`)
    return answer.body
  }
  /** Reads a CSV of calls: their ids in their order as text, and the sum of a column of amounts. */
  async function exportedCalls(file: string) {
    const [head = '', ...lines] = (await reader.get(file)).body.trimEnd().split('\r\n')
    const rows = lines.map((line) => line.split(','))
    const places = head.split(',')
    const sumOf = (column: string) =>
      rows.reduce((sum, row) => sum + BigInt((row[places.indexOf(column)] ?? '').replace('.', '')), 0n)
    return { ids: rows.map(([id = '']) => id).toSorted(), sumOf }
  }
  async function actionsOn(subject: string) {
    return await running.ledger.sql(
      'SELECT action, operator, source, reason FROM operator_actions WHERE subject = $1',
      [subject],
    )
  }
  /** Ends an item in its two steps. */
  async function end(page: string, fields: Readonly<Record<string, string>>) {
    const { status, body } = await actor.submit(`${page}/resolve`, fields)
    const form = readForms(body).find(({ action }) => action === `${page}/resolve`)
    if (status !== 200 || !form) throw new Error(`the first step answers ${status}: ${body}`)
    return await actor.submit(form.action, form.fields)
  }
  it('leads from every id of a call to its page', async () => {
    const request = newTestJob({ idempotencyKey: `key=${randomUUID()}&%` })
    const job = await jobInState(running.ledger, 'completed', request)
    const [row] = await running.ledger.sql<{ receipt_id: string; transaction_hash: string }>(
      'SELECT receipt_id, transaction_hash FROM jobs JOIN settlements ON settlements.job_id = jobs.id WHERE jobs.id = $1',
      [job.id],
    )
    const ids = [job.id, request.origin.requestId, request.idempotencyKey, row?.receipt_id, row?.transaction_hash]
    for (const id of ids) {
      const answer = await reader.get(`/operator/search?q=${encodeURIComponent(` ${id} `)}`)
      expect(answer).toMatchObject({ status: 303, location: `/operator/payments/${job.id}` })
    }
    const { payer } = request.authorization
    expect(await reader.get(`/operator/search?q=${payer}`)).toMatchObject({ location: `/operator/payers/${payer}` })
  })

  it('lists what an id belongs to when that is more than one call, and says when it is nothing', async () => {
    const origin = { requestId: `shared-${randomUUID()}`, traceparent: null }
    const jobs = [
      await jobInState(running.ledger, 'accepted', newTestJob({ origin })),
      await jobInState(running.ledger, 'accepted', newTestJob({ origin })),
    ]
    const text = await textOf(`/operator/search?q=${origin.requestId}`)
    for (const { id } of jobs) expect(text).toContain(`/operator/payments/${id}`)
    for (const id of ['', 'nothing', '%', '\ud800', 'x'.repeat(5000)])
      expect(await textOf(`/operator/search?q=${encodeURIComponent(id.toWellFormed())}`)).not.toContain('/payments/')
    expect(await textOf('/operator/search?q=a&q=b')).toContain('Enter the id')
  })

  it('shows a call in every state, and nothing of its prompt, result, key or signature', async () => {
    for (const state of JOB_STATES) {
      const request = newTestJob()
      const job = await jobInState(running.ledger, state, request)
      const text = await textOf(`/operator/payments/${job.id}`)
      expect(text).toContain('Accepted with a payment')
      expect(text).toContain('Challenge (402)')
      expect(text).not.toContain(request.idempotencyKey)
      expect(text).toContain(`${request.idempotencyKey.slice(0, 6)}… (36 characters)`)
      expect(text).not.toContain('one canary')
      expect(text).not.toContain(request.authorization.signature)
      expect(text).not.toContain('undefined')
    }
  })

  it('shows the batch of a settlement with its contract and the calls that share it', async () => {
    const [call, other, third] = await settlingBatch(running.ledger, 3)
    if (!call || !other || !third) throw new Error('three jobs')
    await running.ledger.settlement.abandonBatch(call.settlement.batch?.id ?? '')
    const text = await textOf(`/operator/payments/${call.job.id}`)
    expect(text).toContain(TEST_CONTRACT)
    expect(text).toMatch(/Signed together<\/dt><dd>3 payments/)
    expect(text).toContain('given up')
    for (const { job } of [other, third]) expect(text).toContain(`/operator/payments/${job.id}`)
    expect(text).not.toContain('undefined')
    // The transaction leads to all of its calls.
    const [transaction] = call.settlement.transactions
    const found = await textOf(`/operator/search?q=${transaction?.hash}`)
    for (const { job } of [call, other, third]) expect(found).toContain(`/operator/payments/${job.id}`)
    const alone = await jobInState(running.ledger, 'settling')
    expect(await textOf(`/operator/payments/${alone.id}`)).not.toContain('Signed together')
  })

  it('shows the timeline of a paid call in its order', async () => {
    const job = await jobInState(running.ledger, 'completed')
    const text = await textOf(`/operator/payments/${job.id}`)
    const titles = [
      'Challenge (402)',
      'Accepted with a payment',
      'Called elevenlabs',
      'elevenlabs answered: result and charge sealed',
      'Settlement transaction signed',
      'Settlement confirmed',
    ]
    const places = titles.map((title) => text.indexOf(title))
    expect(places).not.toContain(-1)
    expect(places).toEqual(places.toSorted((left, right) => left - right))
    expect(text).toContain('Receipt issued')
  })

  it('answers 404 for a call or an item that does not exist, and for a payer that is no address', async () => {
    for (const address of [
      `payments/${randomUUID()}`,
      'payments/nonsense',
      'payers/0x1',
      `payers/${randomAddress()}0`,
      `review/review:${randomUUID()}`,
      'review/nonsense',
    ])
      await textOf(`/operator/${address}`, 404)
  })

  it('keeps the filters of a list in its links', async () => {
    for (let calls = 0; calls < 55; calls++) await jobInState(running.ledger, 'accepted')
    const text = await textOf('/operator/payments?state=open')
    const next = /href="([^"]*after=[^"]*)"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
    expect(next).toContain('state=open')
    expect(await textOf(next ?? '')).not.toContain('No call matches')
    expect(await textOf('/operator/payments?state=nonsense&from=nonsense&after=nonsense')).toContain(
      '/operator/payments/',
    )
    expect(await textOf('/operator/payments?until=2001-01-01')).toContain('No call matches')
  })

  it('shows what a payer owes, and lists it for review', async () => {
    const { payer } = testAuthorization()
    const owed = await jobInState(
      running.ledger,
      'settlement_failed',
      newTestJob({ authorization: testAuthorization({ payer }) }),
    )
    const text = await textOf(`/operator/payers/${payer.toUpperCase().replace('0X', '0x')}`)
    expect(text).toContain('Owes for 1 withheld result')
    expect(text).toContain(`/operator/payments/${owed.id}`)
    const review = await textOf(`/operator/review?payer=${payer}`)
    expect(review).toContain(`/operator/review/${encodeURIComponent(`debt:${owed.id}`)}`)
  })

  it('opens and ends a settlement without a record, whose id may have 152 characters', async () => {
    const authorization = testAuthorization({ nonce: 2n ** 256n - 1n })
    const { id } = await unknownSettlement(running.ledger, { request: newTestJob({ authorization }) })
    const page = `/operator/review/${encodeURIComponent(id)}`
    expect(await textOf(`/operator/review?payer=${authorization.payer}`)).toContain(page)
    expect((await actor.get(page)).body).toContain('End it')
    const ended = await end(page, { outcome: 'paid_outside', reason: 'wire transfer' })
    expect(ended).toMatchObject({ status: 303, location: page })
    expect(await textOf(page)).toContain('wire transfer')
  })

  it('ends an item once: the second operator reads who was first', async () => {
    const job = await jobInState(running.ledger, 'settlement_failed')
    const page = `/operator/review/${encodeURIComponent(`debt:${job.id}`)}`
    expect((await actor.get(page)).body).toContain('End it')
    const forgiven = await end(page, { outcome: 'forgiven', reason: 'our outage' })
    expect(forgiven).toMatchObject({ status: 303, location: page })
    const second = await actor.submit(`${page}/resolve`, { outcome: 'paid_outside', reason: 'wire transfer' })
    expect(second.status).toBe(422)
    expect(second.body).toContain('actor ended this item')
    expect(second.body).toContain('our outage')
    const text = await textOf(page)
    expect(text).not.toContain('End it')
    expect(text).toContain('our outage')
    expect(await textOf(`/operator/payments/${job.id}`)).toContain('actor ended the debt: forgiven')
    expect(await textOf(`/operator/review?payer=${job.authorization.payer}`)).toContain('Nothing needs a person')
    const [resolutions] = await running.ledger.sql('SELECT count(*)::int FROM resolutions WHERE job_id = $1', [job.id])
    expect(resolutions).toEqual({ count: 1 })
  })

  it('ends nothing before an operator has confirmed item, outcome, amount and payer', async () => {
    const job = await jobInState(running.ledger, 'settlement_failed')
    const page = `/operator/review/${encodeURIComponent(`debt:${job.id}`)}`
    const before = withoutSessions(await running.ledger.fingerprint())
    const asked = await actor.submit(`${page}/resolve`, { outcome: 'forgiven', reason: 'our <b>outage</b>' })
    expect(asked.status).toBe(200)
    expect(withoutSessions(await running.ledger.fingerprint())).toBe(before)
    const shown = shownTextOf(asked.body)
    for (const text of [`debt:${job.id}`, 'forgiven', '0.005034 USDC', job.authorization.payer, 'Nothing is ended yet'])
      expect(shown).toContain(text)
    const [form] = readForms(asked.body.slice(asked.body.indexOf('<main')))
    expect(form).toMatchObject({
      action: `${page}/resolve`,
      fields: { outcome: 'forgiven', reason: 'our <b>outage</b>' },
    })
    expect((await actor.submit(`${page}/resolve`, form?.fields)).status).toBe(303)
    expect(await actionsOn(`debt:${job.id}`)).toHaveLength(1)
  })

  it('refuses a confirmation of an item that changed meanwhile, and shows it as it is now', async () => {
    const request = newTestJob()
    const job = await jobInState(running.ledger, 'review', request)
    const page = `/operator/review/${encodeURIComponent(`review:${job.id}`)}`
    const entered = { outcome: 'written_off', reason: 'too small to look into' }
    const [form] = readForms((await actor.submit(`${page}/resolve`, entered)).body.split('<main')[1] ?? '')
    // The chain shows what was charged: less than at most.
    await unknownSettlement(running.ledger, { request, job, amount: atomicAmount(4321n) })
    const late = await actor.submit(`${page}/resolve`, form?.fields)
    expect([late.status, late.body]).toEqual([422, expect.stringContaining('This item changed after you looked')])
    expect(late.body).toContain('0.004321')
    expect(late.body).toContain('too small to look into')
    expect(await actionsOn(`review:${job.id}`)).toEqual([])
    for (const confirmed of ['x', 'a'.repeat(64)])
      expect((await actor.submit(`${page}/resolve`, { ...entered, confirmed })).status).toBe(422)
    expect((await end(page, entered)).status).toBe(303)
  })

  it('lets a debt that was written off be forgiven later', async () => {
    const job = await jobInState(running.ledger, 'settlement_failed')
    const page = `/operator/review/${encodeURIComponent(`debt:${job.id}`)}`
    await end(page, { outcome: 'written_off', reason: 'too small' })
    expect(await textOf(`/operator/payments/${job.id}`)).toContain(`href="${page}"`)
    expect(await textOf(`/operator/payments/${job.id}`)).toContain('Written off. The payer still owes it')
    expect((await end(page, { outcome: 'forgiven', reason: 'a good customer' })).status).toBe(303)
    expect(await textOf(`/operator/payments/${job.id}`)).toContain('nothing is owed')
  })

  it('refuses a resolution without a reason, with an outcome that the item may not have, or an unproven refund', async () => {
    const job = await jobInState(running.ledger, 'review')
    const page = `/operator/review/${encodeURIComponent(`review:${job.id}`)}`
    const before = await running.ledger.fingerprint()
    const refusals: readonly (readonly [Record<string, string>, string])[] = [
      [{ outcome: 'written_off', reason: ' ' }, 'Enter the reason'],
      [{ outcome: '', reason: 'because' }, 'Choose how it was ended.'],
      [{ outcome: 'forgiven', reason: 'because' }, 'cannot be forgiven'],
      [
        { outcome: 'refunded', reason: 'because', refund_transaction: `0x${'ab'.repeat(32)}` },
        'contains this transaction',
      ],
      [{ outcome: 'refunded', reason: 'because' }, 'class="error"'],
    ]
    for (const [fields, sentence] of refusals) {
      const answer = await actor.submit(`${page}/resolve`, fields)
      expect(answer).toMatchObject({ status: 422, body: expect.stringContaining(sentence) })
    }
    expect(withoutSessions(await running.ledger.fingerprint())).toBe(withoutSessions(before))
  })

  it('lets an account that reads see every item, and end none', async () => {
    const job = await jobInState(running.ledger, 'review')
    const page = `/operator/review/${encodeURIComponent(`review:${job.id}`)}`
    expect(await textOf(page)).toContain('needs an account that may act')
    expect(await reader.submit(`${page}/resolve`, { outcome: 'written_off', reason: 'because' })).toMatchObject({
      status: 403,
    })
    expect(await actionsOn(job.id)).toEqual([])
  })

  it('blocks and unblocks an address that never paid, and lists it while it is blocked', async () => {
    const payer = randomAddress()
    const address = `/operator/payers/${payer}`
    const found = await reader.get(`/operator/search?q=${payer.toUpperCase().replace('0X', '0x')}`)
    expect(found).toMatchObject({ status: 303, location: address })
    expect(await textOf(address)).toContain('The ledger has never seen this address')
    expect(await textOf('/operator/payers')).toContain('No payer is blocked.')
    expect(await textOf('/operator/payments')).toContain('href="/operator/payers"')
    const refused = await actor.submit(`${address}/block`, { reason: ' ', until: '' })
    expect([refused.status, refused.body]).toEqual([422, expect.stringContaining('Say why')])
    const blocked = await actor.submit(`${address}/block`, { reason: 'Stolen <b>key</b>', until: '2126-01-01' })
    expect(blocked).toMatchObject({ status: 303, location: address })
    const shown = shownTextOf((await actor.get(address)).body)
    expect(shown).toContain('Blocked by actor until 2126-01-02T00:00:00Z')
    expect(shown).toContain('The ledger has never seen this address')
    const list = await textOf('/operator/payers')
    expect(list).toContain(`href="${address}"`)
    const [row = ''] = cellsOf(list).filter((cells) => cells.startsWith('0x'))
    expect(row).toContain('Stolen &lt;b&gt;key&lt;/b&gt; 2126-01-02T00:00:00Z')
    expect(row).toContain(' actor ')
    expect((await actor.submit(`${address}/unblock`, { reason: 'A mistake' })).status).toBe(303)
    expect(await textOf('/operator/payers')).toContain('No payer is blocked.')
    expect(await textOf(address)).not.toContain('Blocked by')
  })

  it('shows what was charged each day, and the same in its CSV', async () => {
    const job = await jobInState(running.ledger, 'completed')
    await running.ledger.sql(
      "UPDATE jobs SET accepted_at = '2026-04-05T10:00:00Z', finished_at = '2026-04-05T10:00:02Z' WHERE id = $1",
      [job.id],
    )
    await running.ledger.sql(
      `UPDATE settlements SET finished_at = '2026-04-05T10:00:02Z', finalized_at = now(), gas_used = 1,
       effective_gas_price = 1, gas_cost = 34 WHERE job_id = $1`,
      [job.id],
    )
    const period = 'from=2026-04-04&until=2026-04-06'
    const text = await textOf(`/operator/ledger?${period}`)
    expect(text).toContain('final on chain')
    expect(text).toContain('0.005000')
    const days = await reader.get(`/operator/ledger/days.csv?${period}`)
    expect(days.headers['content-disposition']).toBe('attachment; filename="farebox-days-2026-04-04-2026-04-06.csv"')
    const lines = days.body.split('\r\n')
    expect(lines).toHaveLength(5)
    expect(lines[2]).toMatch(/^2026-04-05,1,0\.005034,0\.005034,0\.000034,0\.005000,0,/)
    const calls = await reader.get(`/operator/ledger/calls.csv?${period}`)
    expect(calls.body.split('\r\n')).toHaveLength(3)
    expect(calls.body).toContain(`${job.id},`)
    await running.ledger.sql(
      "UPDATE settlements SET state = 'lost', failure_reason = 'x', finalized_at = NULL WHERE job_id = $1",
      [job.id],
    )
    expect(await textOf(`/operator/ledger?${period}`)).toContain('charges and settlements differ')
  })

  it('shows what a model and a payer earned, less vendors and gas, and leads there from the ledger and the call', async () => {
    const model = 'maker/a model & more'
    const jobs = [await jobInState(running.ledger, 'completed'), await jobInState(running.ledger, 'completed')]
    for (const [index, { id }] of jobs.entries()) {
      const at = `2026-04-1${index}T10:00:00Z`
      await running.ledger.sql('UPDATE jobs SET finished_at = $2, public_model = $3 WHERE id = $1', [id, at, model])
      await running.ledger.sql(
        `UPDATE settlements SET finished_at = $2, finalized_at = now(), gas_used = 1, effective_gas_price = 1,
         gas_cost = 34 WHERE job_id = $1`,
        [id, at],
      )
    }
    const [first, second] = jobs
    await running.ledger.sql(
      "UPDATE upstream_attempts SET vendor_cost = 6000, deployment = 'dear one' WHERE job_id = $1",
      [first?.id],
    )
    await running.ledger.sql(
      "UPDATE upstream_attempts SET vendor_cost = NULL, deployment = 'unpriced' WHERE job_id = $1",
      [second?.id],
    )
    const period = 'from=2026-04-10&until=2026-04-11'
    const address = `/operator/models/${encodeURIComponent(model)}?${period}`
    const books = await textOf(`/operator/ledger?${period}`)
    expect(books).toContain(address.replaceAll('&', '&amp;'))
    const inAll = '0.010068 USDC 0.006000 USDC 1 without a price 0.000068 USDC 0.004000 USDC'
    expect(cellsOf(books)).toContain(`maker/a model &amp; more 2 ${inAll}`)
    const page = await textOf(address)
    expect(cellsOf(page).filter((row) => /^(dear|unpriced|2026)/.test(row))).toEqual([
      'dear one 1 0.005034 USDC 0.006000 USDC 0.000034 USDC -0.001000 USDC',
      'unpriced 1 0.005034 USDC 0.000000 USDC 1 without a price 0.000034 USDC 0.005000 USDC',
      '2026-04-11 1 0.005034 USDC 0.000000 USDC 1 without a price 0.000034 USDC 0.005000 USDC',
      '2026-04-10 1 0.005034 USDC 0.006000 USDC 0.000034 USDC -0.001000 USDC',
    ])
    expect(page).toContain('/operator/providers/dear%20one')
    const exported = await reader.get(
      `/operator/ledger/calls.csv?${new URLSearchParams({ model, from: '2026-01-01' }).toString()}`,
    )
    expect(exported.body.split('\r\n')).toHaveLength(4)
    expect(await textOf(`/operator/payments/${first?.id}`)).toContain(`/operator/models/${encodeURIComponent(model)}"`)
    expect(await textOf('/operator/models/never-charged')).toContain('No call of this model was charged')
    await running.ledger.sql('UPDATE jobs SET finished_at = now() WHERE id = $1', [first?.id])
    const payer = `/operator/payers/${first?.authorization.payer}`
    expect(shownTextOf(await textOf(payer))).toContain(
      'Margin of 24 hours -0.001000 USDC less 0.006000 for vendors and 0.000034 for gas Absorbed',
    )
    await running.ledger.sql('UPDATE upstream_attempts SET vendor_cost = NULL WHERE job_id = $1', [first?.id])
    await running.ledger.sql(
      'UPDATE settlements SET gas_used = NULL, effective_gas_price = NULL, gas_cost = NULL WHERE job_id = $1',
      [first?.id],
    )
    expect(shownTextOf(await textOf(payer))).toContain(
      'less 0.000000 for vendors and 0.000000 for gas, 1 call without a vendor’s price, gas of 1 not known Absorbed',
    )
  })

  it('shows the margin of today, which is the result that the ledger has of it', async () => {
    const job = await jobInState(running.ledger, 'completed')
    await running.ledger.sql('UPDATE upstream_attempts SET vendor_cost = 1234 WHERE job_id = $1', [job.id])
    await running.ledger.sql(
      'UPDATE settlements SET gas_used = 1, effective_gas_price = 1, gas_cost = 34 WHERE job_id = $1',
      [job.id],
    )
    const now = await textOf('/operator')
    const [, link = ''] = /Margin<\/p><p class="value"><a href="([^"]*)"/.exec(now) ?? []
    const [, margin] = /Margin (-?[\d.,]+) USDC settled, less gas and vendors/.exec(shownTextOf(now)) ?? []
    const [, day = ''] = /from=([\d-]+)/.exec(link) ?? []
    const [row = ''] = cellsOf(await textOf(link.replaceAll('&amp;', '&'))).filter((cells) => cells.startsWith(day))
    const amounts = [...row.matchAll(/(-?[\d.,]+) USDC/g)].map(([, amount = '']) =>
      BigInt(amount.replaceAll(/[.,]/g, '')),
    )
    // Of what was charged, less gas and vendors.
    const [, gas = 0n, vendors = 0n, result] = amounts
    expect([gas >= 34n, vendors >= 1234n]).toEqual([true, true])
    expect(BigInt((margin ?? '').replaceAll(/[.,]/g, ''))).toBe(result)
  })

  it('leads from what a day charged to exactly these calls, whose CSV adds up to the day', async () => {
    const model = 'model-of-midnight'
    const day = '2026-04-20'
    const make = async (state: 'completed' | 'settlement_failed', acceptedAt: string, finishedAt: string) => {
      const { id } = await jobInState(running.ledger, state)
      await running.ledger.sql('UPDATE jobs SET accepted_at = $2, finished_at = $3, public_model = $4 WHERE id = $1', [
        id,
        acceptedAt,
        finishedAt,
        model,
      ])
      await running.ledger.sql('UPDATE upstream_attempts SET finished_at = $2, vendor_cost = 321 WHERE job_id = $1', [
        id,
        finishedAt,
      ])
      if (state === 'completed')
        await running.ledger.sql(
          `UPDATE settlements SET finished_at = $2, finalized_at = now(), gas_used = 1, effective_gas_price = 1,
           gas_cost = 34 WHERE job_id = $1`,
          [id, finishedAt],
        )
      return { id }
    }
    const before = await make('completed', '2026-04-19T23:59:59Z', '2026-04-20T00:00:01Z')
    const within = await make('completed', '2026-04-20T12:00:00Z', '2026-04-20T12:00:01Z')
    await make('completed', '2026-04-20T23:59:59Z', '2026-04-21T00:00:01Z')
    await make('completed', '2026-04-19T23:59:57Z', '2026-04-19T23:59:59Z')
    const withheld = await make('settlement_failed', '2026-04-20T13:00:00Z', '2026-04-20T13:00:01Z')
    const period = `from=${day}&until=${day}`
    const books = await textOf(`/operator/ledger?${period}`)
    const models = await textOf(`/operator/models/${model}?${period}`)
    const rows = cellsOf(books).filter((row) => row.startsWith(day))
    expect(rows).toEqual([expect.stringMatching(`^${day} 2 0.010068 USDC 0.000068 USDC 0.000963 USDC `)])
    const lists = [...linksOf(books, '/operator/payments?'), ...linksOf(models, '/operator/payments?')]
    // The day of the ledger, the model's calls, and its day.
    expect(lists).toHaveLength(3)
    const ofBooks = linksOf(books, '/operator/ledger/calls.csv')
    const files = [ofBooks[0] ?? '', ...linksOf(models, '/operator/ledger/calls.csv')]
    for (const list of lists) {
      const page = await textOf(list)
      expect([list, callsIn(page)]).toEqual([list, idsOf(before, within)])
      expect(page).toContain('<th scope="col">Ended</th>')
      files.push(...linksOf(page, '/operator/ledger/calls.csv'))
    }
    expect(files).toHaveLength(5)
    for (const file of files) {
      const { ids, sumOf } = await exportedCalls(file)
      expect([file, ids]).toEqual([file, idsOf(before, within)])
      expect(['charge_usdc', 'gas_usdc', 'vendor_usdc', 'margin_usdc'].map(sumOf)).toEqual([10_068n, 68n, 642n, 9358n])
    }
    // Vendors bill for results that were not paid as well.
    const all = await exportedCalls(ofBooks[1] ?? '')
    expect([all.ids, all.sumOf('vendor_usdc')]).toEqual([idsOf(before, within, withheld), 963n])
  })

  it('cuts the CSV of calls by period, state and payer, as the lists do', async () => {
    const day = '2026-04-09'
    const jobs = []
    for (const state of ['completed', 'failed', 'review', 'completed'] as const)
      jobs.push(await jobInState(running.ledger, state))
    await running.ledger.sql('UPDATE jobs SET accepted_at = $2 WHERE id = ANY($1)', [
      jobs.map(({ id }) => id),
      `${day}T10:00:00Z`,
    ])
    const [first, failed, reviewed, last] = jobs
    if (!first || !failed || !reviewed || !last) throw new Error('four jobs')
    const exported = async (filter: string) => {
      const { status, body } = await reader.get(`/operator/ledger/calls.csv?from=${day}&until=${day}&${filter}`)
      if (status !== 200) throw new Error(`${filter} answers ${status}`)
      return body
        .split('\r\n')
        .slice(1, -1)
        .map((line) => line.split(',')[0] ?? '')
        .toSorted()
    }
    expect(await exported('')).toEqual(idsOf(...jobs))
    expect(await exported('state=completed')).toEqual(idsOf(first, last))
    expect(await exported('state=review')).toEqual(idsOf(reviewed))
    const { payer } = failed.authorization
    expect(await exported(`payer=${payer.toUpperCase().replace('0X', '0x')}`)).toEqual(idsOf(failed))
    expect(await exported(`payer=${payer}&state=completed`)).toEqual([])
    expect(await textOf(`/operator/payments?state=failed&from=${day}`)).toContain(
      `calls.csv?state=failed&amp;from=${day}`,
    )
    // A file of other calls than those meant is worse than none.
    for (const filter of ['state=nonsense', 'payer=0x1', 'from=yesterday'])
      expect((await reader.get(`/operator/ledger/calls.csv?${filter}`)).status).toBe(400)
  })

  it('has in the CSV of a list all of its calls, with one date, with none, and over many years', async () => {
    const model = 'model-of-years'
    const ids: string[] = []
    for (const year of [2019, 2021, 2025]) {
      const { id } = await jobInState(running.ledger, 'completed')
      await running.ledger.sql('UPDATE jobs SET public_model = $2, accepted_at = $3 WHERE id = $1', [
        id,
        model,
        `${year}-06-01T10:00:00Z`,
      ])
      ids.push(id)
    }
    const [first = '', second = '', third = ''] = ids
    const cases: readonly (readonly [days: string, expected: readonly string[], name: string])[] = [
      ['', [first, second, third], 'first-last'],
      ['&from=2019-01-01', [first, second, third], '2019-01-01-last'],
      ['&from=2019-06-02', [second, third], '2019-06-02-last'],
      ['&until=2021-12-31', [first, second], 'first-2021-12-31'],
      ['&from=2019-01-01&until=2024-12-31', [first, second], '2019-01-01-2024-12-31'],
      ['&from=2025-01-01&until=2024-12-31', [], '2025-01-01-2024-12-31'],
    ]
    for (const [days, expected, name] of cases) {
      const page = await textOf(`/operator/payments?model=${model}${days}`)
      expect([days, callsIn(page)]).toEqual([days, expected.toSorted()])
      const link = /href="([^"]*calls\.csv[^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? ''
      const { body, headers } = await reader.get(link)
      const listed = body.trimEnd().split('\r\n').slice(1)
      expect([days, listed.map((line) => line.split(',')[0])]).toEqual([days, expected])
      expect(headers['content-disposition']).toBe(`attachment; filename="farebox-calls-${name}.csv"`)
    }
  })

  it('shows at most a year of days, and today when the period is not readable', async () => {
    const today = new Date().toISOString().slice(0, 10)
    expect(await textOf('/operator/ledger?from=nonsense&until=nonsense')).toContain(`datetime="${today}"`)
    const year = await textOf('/operator/ledger?from=1970-01-01&until=2026-01-01')
    expect(year.match(/<tr>/g)).toHaveLength(367)
    expect(await textOf('/operator/ledger?from=2026-05-02&until=2026-05-01')).toContain('datetime="2026-05-01"')
  })

  it('counts what failed today, and leads to these calls and to those of each cause', async () => {
    const before = failedToday(await textOf('/operator'))
    const job = await jobInState(running.ledger, 'failed')
    const withheld = await jobInState(running.ledger, 'settlement_failed')
    await running.ledger.sql('DELETE FROM upstream_attempts WHERE job_id = $1', [job.id])
    // Accepted on another day than it failed on.
    await running.ledger.sql(
      `UPDATE jobs SET failure_code = 'provider_rejected', public_model = 'm & m', accepted_at = now() - interval '2 days'
       WHERE id = $1`,
      [job.id],
    )
    await running.ledger.sql("UPDATE jobs SET finished_at = now() - interval '1 day' WHERE id = $1", [
      (await jobInState(running.ledger, 'failed')).id,
    ])
    const now = await textOf('/operator')
    const after = failedToday(now)
    expect([after.failed - before.failed, after.without - before.without]).toEqual([2, 1])
    const failed = await textOf(after.link)
    for (const { id } of [job, withheld]) expect(failed).toContain(`/operator/payments/${id}`)
    expect(callsIn(failed)).toHaveLength(after.failed)
    const link = /href="(\/operator\/payments\?[^"]*code=provider_rejected[^"]*)"/
      .exec(now)?.[1]
      ?.replaceAll('&amp;', '&')
    const listed = await textOf(link ?? '')
    expect(listed).toContain(`/operator/payments/${job.id}`)
    expect(listed).toContain('value="m &amp; m"')
    expect(await textOf('/operator/payments?code=none_such')).toContain('No call matches')
    expect(await textOf(`/operator/payments?payer=${job.authorization.payer}&at_least=nonsense`)).toContain(job.id)
  })

  it('lets no text of a payer become a formula or an element', async () => {
    const hostile = '=HYPERLINK("http://x","y")<script>alert(1)</script>'
    const job = await jobInState(running.ledger, 'failed')
    await running.ledger.sql(
      "UPDATE jobs SET request_id = $2, public_model = $2, failure_reason = $2, accepted_at = '2026-06-01T00:00:00Z' WHERE id = $1",
      [job.id, hostile],
    )
    const csv = await reader.get('/operator/ledger/calls.csv?from=2026-06-01&until=2026-06-01')
    expect(csv.body).toContain(`"'=HYPERLINK(""http://x"",""y"")<script>`)
    for (const address of [`/operator/payments/${job.id}`, '/operator/payments?from=2026-06-01&until=2026-06-01'])
      expect(await textOf(address)).not.toContain('<script>alert')
    expect(await reader.get(`/operator/search?q=${encodeURIComponent(hostile)}`)).toMatchObject({ status: 303 })
  })
})

/** Returns the ids of the calls that a page links to, in their order as text. */
const callsIn = (page: string): readonly string[] => {
  const ids = [...page.matchAll(/\/operator\/payments\/([0-9a-f-]{36})"/g)].map(([, id = '']) => id)
  return [...new Set(ids)].toSorted()
}
/** Returns the links of a page that begin with a text. */
const linksOf = (page: string, beginning: string): readonly string[] =>
  [...page.matchAll(/href="([^"]*)"/g)]
    .map(([, href = '']) => href.replaceAll('&amp;', '&'))
    .filter((href) => href.startsWith(beginning))
const idsOf = (...those: readonly { id: string }[]) => those.map(({ id }) => id).toSorted()
const shownTextOf = (html: string) =>
  html
    .slice(html.indexOf('<main'))
    .replace(/<[^>]+>/g, ' ')
    .replace(/&#39;/g, "'")
    .replace(/\s+/g, ' ')

describe('the pages on providers, queues and processes', () => {
  let console: TestConsole
  let actor: ConsoleVisitor
  beforeAll(async () => {
    console = await startTestConsole()
    const content = { deployments: [deployment(NAME, 'model-a', 'model-b'), deployment('second', 'model-b')] }
    await importFirstFiles(console.ledger.pool, [{ kind: 'deployments', content }])
    actor = await console.signIn('act')
  })

  afterAll(() => console.close())

  beforeEach(async () => {
    await console.ledger.sql('TRUNCATE controls, process_reports')
  })

  const read = async (address: string, visitor = actor) => {
    const { status, body } = await visitor.get(address)
    if (status !== 200) throw new Error(`${address} answers ${status}: ${body}`)
    return shownTextOf(body)
  }
  /** Returns the visible text, with single spaces. */
  const report = (instance: string, changes: Partial<ProcessReport> = {}, kind: 'worker' | 'api' = 'worker') =>
    createProcessReportStore(console.ledger.pool).writeReport(
      { instance, kind, startedAt: new Date() },
      { version: '1.2.3', configurationRevision: '1', keys: {}, ...changes },
    )
  /** Records a call of a job of its own. */
  async function call(state: string, reason: string | null, seconds = 1): Promise<string> {
    const job = await claimTestJob(console.ledger, await acceptTestJob(console.ledger))
    const { attemptId } = await console.ledger.execution.startAttempt(job, called(NAME), null)
    await console.ledger.sql(
      `UPDATE upstream_attempts SET state = $2, reason = $3, started_at = now() - make_interval(secs => $4),
       finished_at = CASE WHEN $2 <> 'open' THEN now() END WHERE id = $1`,
      [attemptId, state, reason, seconds],
    )
    return job.id
  }
  describe('the pages of providers', () => {
    it('show what every worker reports, and who cannot use a deployment', async () => {
      await report('worker-1', {
        deployments: { [NAME]: stateOf({ circuit: 'open', activeCalls: 2 }), second: stateOf() },
      })
      await report('worker-2', { deployments: { second: stateOf() }, unusable: { [NAME]: 'VENDOR_KEY is not set' } })
      const list = await read('/operator/providers')
      expect(list).toContain('failing on 1 of 1')
      expect(list).toContain('unusable on 1')
      const page = await read(`/operator/providers/${NAME}`)
      expect(page).toContain('worker-2 cannot use it: VENDOR_KEY is not set')
      expect(page).toContain('model-a, model-b')
      // A process that no longer reports is no worker of now.
      await console.ledger.sql("UPDATE process_reports SET seen_at = now() - interval '11 seconds'")
      expect(await read('/operator/providers')).not.toContain('failing on')
    })

    it('show calls, failures by class and absorbed cost of the window, with a link to the latest payment', async () => {
      for (let index = 0; index < 3; index += 1) await call('succeeded', null, 2)
      await call('failed_definite', 'HTTP 503: overloaded')
      const latest = await call('failed_definite', 'HTTP 503: overloaded', 0.5)
      await call('failed_ambiguous', 'no response')
      await call('succeeded', null, 7000)
      const { body } = await actor.get(`/operator/providers/${NAME}?window=1h`)
      const page = shownTextOf(body)
      expect(page).toMatch(
        /Calls 6 0 in flight Succeeded 3 Failed definitely 2 .* Outcome unknown 1 Median, 95th 2\.00 s/,
      )
      expect(page).toMatch(/definite HTTP 503: overloaded 2 /)
      expect(page).toMatch(/outcome unknown no response 1 /)
      expect(body).toContain(`/operator/payments/${latest}`)
      expect(await read(`/operator/providers/${NAME}?window=6h`)).toMatch(/Calls 7 /)
      const [chart] = /data-chart="([^"]+)"/.exec(body)?.slice(1) ?? []
      const { series } = JSON.parse((chart ?? '').replaceAll('&quot;', '"')) as { series: { values: number[] }[] }
      expect(series.map(({ values }) => values.reduce((sum, value) => sum + value, 0))).toEqual([3, 3])
    })

    it('show a deployment that is not published any more as long as calls to it are known', async () => {
      const job = await claimTestJob(console.ledger, await acceptTestJob(console.ledger))
      await console.ledger.execution.startAttempt(job, called('removed'), null)
      expect(await read('/operator/providers/removed')).toContain('not published')
      expect((await actor.get('/operator/providers/never-called')).status).toBe(404)
    })

    it('drain, weight and enable a deployment, with the reason in the audit, and say what is not offered', async () => {
      const drained = await actor.submit(`/operator/providers/${NAME}/drain`, { reason: 'maintenance' })
      expect(drained).toMatchObject({ status: 303, location: `/operator/providers/${NAME}` })
      const page = await read(`/operator/providers/${NAME}`)
      expect(page).toContain(`${NAME} is drained: it gets no new call`)
      expect(page).toContain('Not offered, because only drained deployments serve them: model-a.')
      expect(page).toMatch(/Switched last by actor, .*: maintenance/)
      await actor.submit(`/operator/providers/${NAME}/weight`, { weight: '12', reason: 'more' })
      await actor.submit(`/operator/providers/${NAME}/enable`, { reason: 'done' })
      const controls = createControlStore(console.ledger.pool)
      expect((await controls.readDeploymentControls()).get(NAME)).toMatchObject({ isDrained: false, weight: 12 })
      expect(await read(`/operator/providers/${NAME}`)).toContain('12 published: 3')
      await actor.submit(`/operator/providers/${NAME}/weight`, { weight: '', reason: 'as published' })
      expect((await controls.readDeploymentControls()).get(NAME)).toMatchObject({ weight: null })
      const audit = await read(`/operator/audit?subject=${NAME}`)
      for (const action of ['deployment.drain', 'deployment.weight', 'deployment.enable'])
        expect(audit).toContain(action)
    })

    it('say that somebody else was first, when a deployment is like this already', async () => {
      await actor.submit(`/operator/providers/${NAME}/enable`, { reason: 'why' })
      expect(await read(`/operator/providers/${NAME}`)).toContain(`Nothing was changed: ${NAME} is like this already.`)
    })

    it.each([
      ['drain', { reason: ' ' }, 'Say why'],
      ['weight', { reason: 'why', weight: '0' }, 'From 1 to 1,000,000'],
      ['weight', { reason: 'why', weight: '-1' }, 'A whole number'],
    ])('refuse to %s with %j, and show the form again', async (verb, fields, sentence) => {
      const { status, body } = await actor.submit(`/operator/providers/${NAME}/${verb}`, fields)
      expect(status).toBe(422)
      expect(shownTextOf(body)).toContain(sentence)
    })
  })

  describe('the pages of queues', () => {
    it('show depth and age by queue and node', async () => {
      const jobId = await acceptTestJob(console.ledger)
      await report('worker-1', { queues: { transcriptions: { active: 3, limit: 40, isPaused: false } } })
      await report('worker-2', { queues: { transcriptions: { active: 1, limit: 2, isPaused: false } } })
      expect(await read('/operator/queues')).toMatch(/transcriptions served \d+ .* 4 of 42 /)
      const { body } = await actor.get('/operator/queues/transcriptions')
      expect(shownTextOf(body)).toMatch(/worker-1 3 of 40 takes jobs/)
      expect(body).toContain(jobId)
      expect((await actor.get('/operator/queues/nothing')).status).toBe(404)
    })

    it('pause and resume a queue, and show which workers have not applied it', async () => {
      await report('worker-1', { queues: { text: { active: 0, limit: 4, isPaused: false } } })
      const paused = await actor.submit('/operator/queues/text/pause', { reason: 'a bad prompt' })
      expect(paused).toMatchObject({ status: 303, location: '/operator/queues/text' })
      expect(await read('/operator/queues/text')).toMatch(
        /paused not applied on 1 of 1 .*Paused by actor, .*: a bad prompt/,
      )
      await report('worker-1', { queues: { text: { active: 0, limit: 4, isPaused: true } } })
      expect(await read('/operator/queues/text')).not.toContain('not applied')
      await actor.submit('/operator/queues/text/pause', { reason: 'again' })
      expect(await read('/operator/queues/text')).toContain('Nothing was changed: text is paused already.')
      await actor.submit('/operator/queues/text/resume', { reason: 'mended' })
      expect((await createControlStore(console.ledger.pool).readQueueControls()).get('text')).toMatchObject({
        isPaused: false,
        operator: 'actor',
        reason: 'mended',
      })
    })
  })

  describe('the page of processes', () => {
    it('shows on how many processes the configuration is applied, and which are silent', async () => {
      const [row] = await console.ledger.sql<{ revision: string }>('SELECT revision FROM configuration_revision')
      const revision = row?.revision ?? ''
      await report('worker-1', { configurationRevision: revision })
      await report('worker-2', { configurationRevision: '0' })
      await report(
        'api-1',
        { configurationRevision: revision, catalogVersion: 'catalog-0123', keys: { PAY_TO: ['0x12'] } },
        'api',
      )
      const page = await read('/operator/processes')
      expect(page).toContain(`Revision ${revision} of the configuration is applied on 1 of 2 workers.`)
      expect(page).toContain(`Revision ${revision} of the configuration is applied on 1 of 1 API.`)
      expect(page).toContain('catalog-0123')
      expect(page).toContain('PAY_TO')
      await console.ledger.sql(
        "UPDATE process_reports SET seen_at = now() - interval '11 seconds' WHERE instance = 'worker-2'",
      )
      expect(await read('/operator/processes')).toMatch(/applied on 1 of 1 worker\. .*worker-2 silent/)
    })

    it('says which key an API does not accept, and what still needs a settlement key', async () => {
      const one = { CHALLENGE_SECRET: ['aaaaaaaaaaaa'] }
      await report('api-1', { keys: one }, 'api')
      await report('api-2', { keys: { CHALLENGE_SECRET: ['bbbbbbbbbbbb', 'aaaaaaaaaaaa'] } }, 'api')
      await jobInState(console.ledger, 'settling')
      const page = await read('/operator/processes')
      expect(page).toContain('Calls fail: 1 of 2 APIs do not accept bbbbbbbbbbbb of CHALLENGE_SECRET.')
      expect(page).toMatch(/What still needs each settlement key.* 0x222222…2222 \d+ [1-9]/)
      await report('api-1', { keys: { CHALLENGE_SECRET: ['aaaaaaaaaaaa', 'bbbbbbbbbbbb'] } }, 'api')
      expect(await read('/operator/processes')).not.toContain('Calls fail')
    })
  })
})

describe('the pages on catalog and deployments', () => {
  let console: TestConsole
  let store: ConfigurationStore
  let actor: ConsoleVisitor
  let reader: ConsoleVisitor
  beforeAll(async () => {
    console = await startTestConsole()
    store = createConfigurationStore(console.ledger.pool)
    actor = await console.signIn('act')
    reader = await console.signIn('read')
    await jobInState(console.ledger, 'completed')
  })

  afterAll(() => console.close())

  beforeEach(async () => {
    await console.ledger.sql('TRUNCATE configuration_drafts, publications')
    await store.importFile(
      { operator: 'test', source: 'command' },
      { kind: 'deployments', content: deployments, reason: 'first' },
    )
  })

  const reportKeys = (instance: string, providerKeys: ProviderKeys) =>
    createProcessReportStore(console.ledger.pool).writeReport(
      { instance, kind: 'worker', startedAt: new Date() },
      { version: '1', configurationRevision: '1', keys: {}, providerKeys },
    )
  describe('the page of the catalog', () => {
    it('a draft is edited, reviewed against the last calls, published with a reason, and listed', async () => {
      expect((await reader.get('/operator/catalog')).body).toContain('There is no draft')
      expect(await saveDraft(actor, catalogOf('0.119'))).toMatchObject({ status: 303 })
      const { body } = await actor.get('/operator/catalog')
      expect(body).toContain('price per audio hour usd')
      expect(body).toContain('The last 1 calls')
      const fields = { ...hiddenFields(body, '/operator/catalog/publish'), reason: 'cheaper <b>hours</b>' }
      expect(await actor.submit('/operator/catalog/publish', fields)).toMatchObject({ status: 303 })
      expect(await store.findNewest('catalog')).toMatchObject({ content: catalogOf('0.119'), operator: 'actor' })
      expect(await store.findDraft('catalog')).toBeNull()
      const after = (await reader.get('/operator/catalog')).body
      expect(after).toContain('cheaper &lt;b&gt;hours&lt;/b&gt;')
      expect(after).toContain('0.119 for an hour')
      const { number } = (await store.findNewest('catalog')) ?? { number: 0n }
      expect((await reader.get(`/operator/catalog/publications/${number}`)).body).toContain('0.119')
    })

    it('a draft that sells below cost says so before it is published', async () => {
      const author = { operator: 'ada', source: 'command' } as const
      const dear = { price_per_audio_hour_usd: '0.22', as_of: '2026-06-01', source: 'https://prices.test' }
      const { content } = (await store.findNewest('deployments')) ?? {}
      const { deployments } = content as { deployments: readonly { serves: readonly string[] }[] }
      const priced = deployments.map((each) => (each.serves.includes(TRANSCRIPTION) ? { ...each, prices: dear } : each))
      const asRead = {
        kind: 'deployments',
        content: { deployments: priced } as JsonValue,
        reason: 'list prices',
      } as const
      await store.importFile(author, asRead)
      await saveDraft(actor, catalogOf('0.2'))
      expect((await reader.get('/operator/catalog')).body).toContain(
        `${TRANSCRIPTION} is sold below cost: price_per_audio_hour_usd is 0.2, and `,
      )
      await store.importFile(author, { kind: 'deployments', content: content ?? null, reason: 'as before' })
    })

    it('a rise of a price shows as a rise, although the last calls were charged by a dearer catalog', async () => {
      const author = { operator: 'ada', source: 'command' } as const
      await store.importFile(author, { kind: 'catalog', content: catalogOf('0.05'), reason: 'cheaper' })
      await console.ledger.sql(
        `UPDATE jobs SET usage = '{"input_audio_ms": 1800000}', quoted_maximum = 61000, charge_amount = 61000`,
      )
      await saveDraft(actor, catalogOf('0.1'))
      const { body } = await reader.get('/operator/catalog')
      const [, row = ''] = /<td data-label="Model">All<\/td>([^]*?)<\/tr>/.exec(body) ?? []
      const charged = [...row.matchAll(/data-label="Charged[^"]*" class="number"><span class="money">([\d.]+)/g)]
      // Half an hour, for 0.122, 0.05 and 0.1 USD an hour.
      expect(charged.map(([, amount]) => amount)).toEqual(['0.061000', '0.025000', '0.050000'])
    })

    it('has a field with name, unit and built-in value for each price, which changes the draft and nothing else of it', async () => {
      await saveDraft(actor, {
        models: { 'textmodel-2.5-pro': { max_output_tokens: 4096, input_per_million_tokens: '1.3' } },
      })
      const action = `/operator/catalog/models/${encodeURIComponent(TRANSCRIPTION)}/draft`
      const formOf = async (path: string) =>
        readForms((await actor.get('/operator/catalog')).body).find((form) => form.action === path)
      const form = await formOf(action)
      expect(Object.keys(form?.fields ?? {})).toEqual(
        expect.arrayContaining(['price_per_audio_hour_usd', 'minimum_charge_usd', 'maximum_charge_usd']),
      )
      expect(form?.fields).not.toHaveProperty('input_per_million_tokens')
      const { body } = await actor.get('/operator/catalog')
      expect(body).toContain('Audio, USD for an hour')
      expect(body).toContain('Built in: 0.122')
      expect((await actor.submit(action, { ...form?.fields, price_per_audio_hour_usd: '0.12' })).status).toBe(303)
      const text = { max_output_tokens: 4096, input_per_million_tokens: '1.3' }
      expect((await store.findDraft('catalog'))?.content).toEqual({
        models: { 'textmodel-2.5-pro': text, [TRANSCRIPTION]: { price_per_audio_hour_usd: '0.12' } },
      })
      // An empty field is the built-in price; an edit that was not seen stays.
      const late = await formOf(action)
      expect(late?.fields).toMatchObject({ price_per_audio_hour_usd: '0.12', minimum_charge_usd: '' })
      expect((await actor.submit(action, { ...late?.fields, price_per_audio_hour_usd: '' })).status).toBe(303)
      expect((await store.findDraft('catalog'))?.content).toEqual({ models: { 'textmodel-2.5-pro': text } })
      expect((await actor.submit(action, { ...late?.fields, price_per_audio_hour_usd: '0.1' })).status).toBe(422)
      const now = await formOf(action)
      for (const [entered, sentence] of [
        ['a lot', 'Dollars with at most six decimals'],
        ['0', 'must be above 0'],
      ] as const) {
        const refusal = await actor.submit(action, { ...now?.fields, price_per_audio_hour_usd: entered })
        expect([refusal.status, refusal.body]).toEqual([422, expect.stringContaining(sentence)])
        expect(refusal.body).toContain(`value="${entered}"`)
      }
      expect((await actor.submit('/operator/catalog/models/nothing/draft', now?.fields)).status).toBe(404)
      expect((await reader.get('/operator/catalog')).body).not.toContain('Prices of')
    })

    it('has fields for the prices of the prompt cache, which only text models have, with the built-in one as a hint', async () => {
      await saveDraft(actor, { models: {} })
      const formOf = async (model: string) => {
        const forms = readForms((await actor.get('/operator/catalog')).body)
        return forms.find(({ action }) => action === `/operator/catalog/models/${encodeURIComponent(model)}/draft`)
      }
      expect((await formOf(TRANSCRIPTION))?.fields).not.toHaveProperty('cached_input_per_million_tokens')
      const form = await formOf('textmodel-2.5-pro')
      expect(form?.fields).toMatchObject({ cached_input_per_million_tokens: '', cache_write_per_million_tokens: '' })
      const action = form?.action ?? ''
      const cached = { ...form?.fields, cached_input_per_million_tokens: '1.26' }
      const refusal = await actor.submit(action, cached)
      expect([refusal.status, refusal.body]).toEqual([422, expect.stringContaining('must be at most')])
      const submitted = await actor.submit(action, { ...cached, cached_input_per_million_tokens: '0.125' })
      expect(submitted.status).toBe(303)
      expect((await store.findDraft('catalog'))?.content).toEqual({
        models: { 'textmodel-2.5-pro': { cached_input_per_million_tokens: '0.125' } },
      })
    })

    it('a draft that cannot be published is not saved, and the form shows why with what was entered', async () => {
      for (const [content, sentence] of [
        [catalogOf('0'), 'must be above 0'],
        [{ models: { nobody: {} } }, 'there is no model'],
        ['{"models": {', 'This is not valid JSON.'],
      ] as const) {
        const { status, body } = await saveDraft(actor, content)
        expect({ status, says: body.includes(sentence) }).toEqual({ status: 422, says: true })
      }
      expect(await store.findDraft('catalog')).toBeNull()
    })

    it('nobody overwrites an edit that they did not see, or publishes what they did not review', async () => {
      const page = (await actor.get('/operator/catalog')).body
      const seen = hiddenFields(page, '/operator/catalog/draft')
      await saveDraft(actor, catalogOf('0.118'))
      const late = { ...seen, content: JSON.stringify(catalogOf('0.117')) }
      expect((await actor.submit('/operator/catalog/draft', late)).status).toBe(422)
      const reviewed = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
      await saveDraft(actor, catalogOf('0.116'))
      expect((await actor.submit('/operator/catalog/publish', { ...reviewed, reason: 'x' })).status).toBe(422)
      const again = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
      await store.importFile(
        { operator: 'grace', source: 'command' },
        { kind: 'deployments', content: { deployments: [] }, reason: 'other' },
      )
      expect((await actor.submit('/operator/catalog/publish', { ...again, reason: 'x' })).status).toBe(422)
      expect(await store.findNewest('catalog')).toBeNull()
    })

    it('a draft of a page that was opened before a publication says that publishing it undoes that', async () => {
      const author = { operator: 'grace', source: 'command' } as const
      const first = await store.importFile(author, { kind: 'catalog', content: catalogOf('0.118'), reason: 'a' })
      const page = (await actor.get('/operator/catalog')).body
      const fields = hiddenFields(page, '/operator/catalog/draft')
      await store.importFile(author, { kind: 'catalog', content: catalogOf('0.117'), reason: 'b' })
      const refused = await actor.submit('/operator/catalog/draft', { ...fields, content: '{' })
      expect(refused.status).toBe(422)
      // Shown again, the form has what was entered, which is no later than before.
      const again = hiddenFields(refused.body, '/operator/catalog/draft')
      const late = { ...again, content: JSON.stringify(catalogOf('0.118')) }
      expect((await actor.submit('/operator/catalog/draft', late)).status).toBe(303)
      expect(await store.findDraft('catalog')).toMatchObject({ basedOn: first.number })
      expect((await reader.get('/operator/catalog')).body).toContain('publishing it undoes what that changed')
    })

    it('a publication needs a reason', async () => {
      await saveDraft(actor, catalogOf('0.118'))
      const fields = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
      const { status, body } = await actor.submit('/operator/catalog/publish', { ...fields, reason: '  ' })
      expect({ status, says: body.includes('Say why') }).toEqual({ status: 422, says: true })
    })

    it('an earlier publication becomes the draft, and a draft can be discarded', async () => {
      const author = { operator: 'ada', source: 'command' } as const
      const first = await store.importFile(author, { kind: 'catalog', content: catalogOf('0.118'), reason: 'a' })
      await store.importFile(author, { kind: 'catalog', content: catalogOf('0.117'), reason: 'b' })
      const path = `/operator/catalog/publications/${first.number}`
      const fields = hiddenFields((await actor.get(path)).body, `${path}/draft`)
      expect((await actor.submit(`${path}/draft`, fields)).status).toBe(303)
      expect((await store.findDraft('catalog'))?.content).toEqual(catalogOf('0.118'))
      const { body } = await actor.get('/operator/catalog')
      expect(body).toContain('0.118')
      const discard = hiddenFields(body, '/operator/catalog/draft/discard')
      expect((await actor.submit('/operator/catalog/draft/discard', discard)).status).toBe(303)
      expect(await store.findDraft('catalog')).toBeNull()
    })

    it('an account that reads changes nothing', async () => {
      for (const action of ['draft', 'draft/discard', 'publish'])
        expect((await reader.submit(`/operator/catalog/${action}`, {})).status).toBe(403)
    })

    it.each(['0', '999999', 'x', '1e3', '99999999999999999999'])('publication %s does not exist', async (number) => {
      expect((await reader.get(`/operator/catalog/publications/${number}`)).status).toBe(404)
    })
  })

  describe('the page of the deployments', () => {
    it('shows what callers would lose before it is published', async () => {
      const page = (await actor.get('/operator/deployments')).body
      const fields = hiddenFields(page, '/operator/deployments/draft')
      const content = JSON.stringify({ deployments: [] })
      expect((await actor.submit('/operator/deployments/draft', { ...fields, content })).status).toBe(303)
      const { body } = await reader.get('/operator/deployments')
      expect(body).toContain('What callers are offered')
      expect(body).toContain(`model ${TRANSCRIPTION}`)
      expect(body).toContain('is not offered')
    })

    it('a key that goes to a new host is shown, and is published with the operator’s password only', async () => {
      await saveDeployments(actor, keyed('A_KEY', 'https://a.test'))
      const first = await publishDeployments(actor)
      expect(first.page).toContain('<li>key A_KEY goes to https://a.test (new)</li>')
      expect([first.status, first.body]).toEqual([422, expect.stringContaining('This is not your password.')])
      expect((await publishDeployments(actor, 'another password entirely')).status).toBe(422)
      expect((await store.findNewest('deployments'))?.content).toEqual(deployments)
      expect((await publishDeployments(actor, TEST_PASSWORD)).status).toBe(303)
      expect((await store.findNewest('deployments'))?.content).toEqual(keyed('A_KEY', 'https://a.test'))
      // The same host again, as any other change: with a reason alone.
      const weightier = { deployments: [{ ...keyed('A_KEY', 'https://a.test').deployments[0], weight: 9 }] }
      await saveDeployments(actor, weightier)
      const second = await publishDeployments(actor)
      expect(second.page).toContain('<li>key A_KEY goes to https://a.test</li>')
      expect(second.page).not.toContain('Your password')
      expect(second.status).toBe(303)
    })

    it('where two operators may act, the one who did not edit the draft lets a key go to a new host', async () => {
      const second = await console.addActor('second')
      await saveDeployments(actor, keyed('A_KEY', 'https://b.test'))
      const own = await publishDeployments(actor, TEST_PASSWORD)
      expect([own.status, own.body]).toEqual([422, expect.stringContaining('another operator has to publish it')])
      expect((await publishDeployments(second)).status).toBe(422)
      expect((await publishDeployments(second, TEST_PASSWORD)).status).toBe(303)
      expect(await store.findNewest('deployments')).toMatchObject({ operator: 'second' })
      const accounts = createOperatorStore(console.ledger.pool)
      await accounts.disableAccount('second', { operator: 'test', source: 'command' })
      await saveDeployments(actor, keyed('A_KEY', 'https://c.test'))
      expect((await publishDeployments(actor, TEST_PASSWORD)).status).toBe(303)
    })

    it('a key that a worker does not send there, or that is a setting, is neither saved nor published', async () => {
      await reportKeys('worker-1', { A_KEY: ['https://a.test'] })
      await reportKeys('worker-2', { A_KEY: ['https://a.test', 'https://evil.test'] })
      for (const [content, sentence] of [
        [keyed('SETTLEMENT_PRIVATE_KEYS', 'https://a.test'), 'SETTLEMENT_PRIVATE_KEYS is a setting of farebox'],
        [keyed('A_KEY', 'https://evil.test'), 'worker worker-1: A_KEY may not be sent to https://evil.test'],
      ] as const) {
        const { status, body } = await saveDeployments(actor, content)
        expect({ status, says: body.includes(sentence) }).toEqual({ status: 422, says: true })
        // A draft that a command saved, or that was saved while no worker ran.
        const draft = await store.findDraft('deployments')
        await store.saveDraft(
          { operator: 'ada', source: 'command' },
          { kind: 'deployments', content, edited: draft?.revision ?? null, basedOn: null },
        )
        expect((await actor.get('/operator/deployments')).body).toContain(sentence)
        const fields = {
          draft: String((await store.findDraft('deployments'))?.revision),
          catalog: String((await store.findNewest('catalog'))?.number ?? ''),
          deployments: String((await store.findNewest('deployments'))?.number),
        }
        const direct = { ...fields, reason: 'x', password: TEST_PASSWORD }
        expect(await actor.submit('/operator/deployments/publish', direct)).toMatchObject({
          status: 422,
          body: expect.stringContaining(sentence),
        })
      }
      expect((await store.findNewest('deployments'))?.content).toEqual(deployments)
      await console.ledger.sql('TRUNCATE process_reports')
    })

    it('the accepted calls are counted that only removed deployments can serve', async () => {
      const model = TRANSCRIPTION
      const waiting = [await jobInState(console.ledger, 'accepted'), await jobInState(console.ledger, 'accepted')]
      expect(waiting).toHaveLength(2)
      await saveDeployments(actor, keyed('KEY', 'http://127.0.0.1:9'))
      expect((await actor.get('/operator/deployments')).body).toContain(
        `2 accepted calls of ${model} depend on removed deployments`,
      )
      await saveDeployments(actor, {
        deployments: [{ ...deployment('kept', model), api_key_env: 'KEY', base_url: 'http://127.0.0.1:9' }],
      })
      expect((await actor.get('/operator/deployments')).body).not.toContain('depend on removed deployments')
    })
  })
})
