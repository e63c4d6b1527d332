import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { JOB_STATES } from '#shared/jobs/job.ts'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { unknownSettlement } from '../../support/ledger/open-item.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { TEST_CONTRACT } from '../../support/ledger/test-batch.ts'

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

async function actionsOn(subject: string) {
  return await running.ledger.sql('SELECT action, operator, source, reason FROM operator_actions WHERE subject = $1', [
    subject,
  ])
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

it('answers 404 for a call, a payer or an item that does not exist', async () => {
  for (const address of [
    `payments/${randomUUID()}`,
    'payments/nonsense',
    `payers/${randomAddress()}`,
    'payers/0x1',
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
  expect((await actor.get(page)).body).toContain('End this item')
  const ended = await actor.submit(`${page}/resolve`, { outcome: 'paid_outside', reason: 'wire transfer' })
  expect(ended).toMatchObject({ status: 303, location: page })
  expect(await textOf(page)).toContain('wire transfer')
})

it('ends an item once: the second operator reads who was first', async () => {
  const job = await jobInState(running.ledger, 'settlement_failed')
  const page = `/operator/review/${encodeURIComponent(`debt:${job.id}`)}`
  expect((await actor.get(page)).body).toContain('End this item')
  const forgiven = await actor.submit(`${page}/resolve`, { outcome: 'forgiven', reason: 'our outage' })
  expect(forgiven).toMatchObject({ status: 303, location: page })
  const second = await actor.submit(`${page}/resolve`, { outcome: 'paid_outside', reason: 'wire transfer' })
  expect(second.status).toBe(422)
  expect(second.body).toContain('actor ended this item')
  expect(second.body).toContain('our outage')
  const text = await textOf(page)
  expect(text).not.toContain('End this item')
  expect(text).toContain('our outage')
  expect(await textOf(`/operator/payments/${job.id}`)).toContain('actor ended the debt: forgiven')
  expect(await textOf(`/operator/review?payer=${job.authorization.payer}`)).toContain('Nothing needs a person')
  const [resolutions] = await running.ledger.sql('SELECT count(*)::int FROM resolutions WHERE job_id = $1', [job.id])
  expect(resolutions).toEqual({ count: 1 })
})

it('lets a debt that was written off be forgiven later', async () => {
  const job = await jobInState(running.ledger, 'settlement_failed')
  const page = `/operator/review/${encodeURIComponent(`debt:${job.id}`)}`
  await actor.submit(`${page}/resolve`, { outcome: 'written_off', reason: 'too small' })
  expect(await textOf(`/operator/payments/${job.id}`)).toContain(`href="${page}"`)
  expect(await textOf(`/operator/payments/${job.id}`)).toContain('Written off. The payer still owes it')
  expect((await actor.submit(`${page}/resolve`, { outcome: 'forgiven', reason: 'a good customer' })).status).toBe(303)
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

function withoutSessions(fingerprint: string): string {
  return fingerprint.replace(/^(operator_sessions|process_reports) .*$/gm, '')
}

it('lets an account that reads see every item, and end none', async () => {
  const job = await jobInState(running.ledger, 'review')
  const page = `/operator/review/${encodeURIComponent(`review:${job.id}`)}`
  expect(await textOf(page)).toContain('needs an account that may act')
  expect(await reader.submit(`${page}/resolve`, { outcome: 'written_off', reason: 'because' })).toMatchObject({
    status: 403,
  })
  expect(await actionsOn(job.id)).toEqual([])
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
  expect(lines[2]).toMatch(/^2026-04-05,1,0\.005034,0\.005034,0\.000034,0\.000000,0\.005000,0,/)
  const calls = await reader.get(`/operator/ledger/calls.csv?${period}`)
  expect(calls.body.split('\r\n')).toHaveLength(3)
  expect(calls.body).toContain(`${job.id},`)
  await running.ledger.sql(
    "UPDATE settlements SET state = 'lost', failure_reason = 'x', finalized_at = NULL WHERE job_id = $1",
    [job.id],
  )
  expect(await textOf(`/operator/ledger?${period}`)).toContain('charges and settlements differ')
})

it('shows at most a year of days, and today when the period is not readable', async () => {
  const today = new Date().toISOString().slice(0, 10)
  expect(await textOf('/operator/ledger?from=nonsense&until=nonsense')).toContain(`datetime="${today}"`)
  const year = await textOf('/operator/ledger?from=1970-01-01&until=2026-01-01')
  expect(year.match(/<tr>/g)).toHaveLength(367)
  expect(await textOf('/operator/ledger?from=2026-05-02&until=2026-05-01')).toContain('datetime="2026-05-01"')
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
