import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { RESOLVABLE_ITEMS } from '#shared/jobs/resolution.ts'
import { NAVIGATION } from '../../../operator/pages/index.ts'
import type { HistoryCall } from '../../support/ledger/history/write-history.ts'

/** A kind of page with addresses of it, read in turn, so that no answer is of the rows of the one before. */
export interface MeasuredPage {
  readonly name: string
  readonly paths: readonly string[]
}

const DEPLOYMENTS = ['gemini-3.5-flash', 'anthropic', 'elevenlabs-transcription', 'open-text']
const MODELS = ['textmodel-3.5-flash', 'speechvendor/scribe-v2']
const STATES = ['open', 'uncharged', ...JOB_STATES]
/** The last one is that of no call. */
const CODES = ['provider_unavailable', 'provider_rejected', 'settlement_failed', 'payer_blocked']

/** Returns every page of the navigation, and the pages of what it leads to, with ids of the written calls. */
export function pagesOf(calls: readonly HistoryCall[]): readonly MeasuredPage[] {
  const items = calls.flatMap(({ state, jobId }) => (state === 'review' ? [`review:${jobId}`] : []))
  const completed = calls.filter(({ state }) => state === 'completed')
  const search = (name: string, idOf: (call: HistoryCall) => string | null) => ({
    name: `search: ${name}`,
    paths: completed.map((call) => `/operator/search?q=${encodeURIComponent(idOf(call) ?? '')}`),
  })
  return [
    ...NAVIGATION.map(({ label, path }) => ({ name: label, paths: [path] })),
    search('job', ({ jobId }) => jobId),
    search('request', ({ requestId }) => requestId),
    search('payer', ({ payer }) => payer),
    search('transaction', ({ transaction }) => transaction),
    search('receipt', ({ receiptId }) => receiptId),
    search('idempotency key', ({ idempotencyKey }) => idempotencyKey),
    { name: 'search: nothing', paths: ['/operator/search?q=0x1234', '/operator/search?q=nothing-has-this-key'] },
    { name: 'payment', paths: calls.map(({ jobId }) => `/operator/payments/${jobId}`) },
    { name: 'payments by state', paths: each('/operator/payments?state=', STATES) },
    { name: 'payments by code', paths: each('/operator/payments?code=', CODES) },
    { name: 'payments by model', paths: each('/operator/payments?model=', MODELS) },
    { name: 'payments by deployment', paths: each('/operator/payments?deployment=', DEPLOYMENTS) },
    { name: 'payments by payer', paths: calls.map(({ payer }) => `/operator/payments?payer=${payer}`) },
    { name: 'payments by amount', paths: each('/operator/payments?at_least=', ['0.002', '0.01']) },
    { name: 'payments of a month ago', paths: [`/operator/payments?until=${daysAgo(30)}`] },
    { name: 'payer', paths: calls.map(({ payer }) => `/operator/payers/${payer}`) },
    { name: 'payers, blocked', paths: ['/operator/payers'] },
    { name: 'review of a kind', paths: each('/operator/review?kind=', RESOLVABLE_ITEMS) },
    { name: 'review, an item', paths: each('/operator/review/', items) },
    { name: 'provider', paths: each('/operator/providers/', DEPLOYMENTS).map((path) => `${path}?window=24h`) },
    { name: 'providers of a day', paths: ['/operator/providers?window=24h'] },
    { name: 'queue', paths: each('/operator/queues/', QUEUE_NAMES) },
    { name: 'ledger of a quarter', paths: [`/operator/ledger?from=${daysAgo(89)}&until=${daysAgo(0)}`] },
    { name: 'ledger, CSV of a quarter', paths: [`/operator/ledger/days.csv?from=${daysAgo(89)}&until=${daysAgo(0)}`] },
    {
      name: 'model of a quarter',
      paths: each('/operator/models/', MODELS).map((path) => `${path}?from=${daysAgo(89)}&until=${daysAgo(0)}`),
    },
    { name: 'audit of a deployment', paths: each('/operator/audit?subject=', DEPLOYMENTS) },
    { name: 'audit of nobody', paths: ['/operator/audit?operator=nobody'] },
    { name: 'account', paths: ['/operator/account'] },
  ]
}

const DAY_MS = 24 * 3600 * 1000
const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10)

const each = (path: string, ids: readonly string[]) => ids.map((id) => `${path}${encodeURIComponent(id)}`)
