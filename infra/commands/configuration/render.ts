import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Change } from '#shared/operators/compare-configurations.ts'
import type { Draft, Publication, PublicationSummary } from '#shared/operators/publication.ts'
import { lineOfDestination, type Review } from '#shared/operators/review-configuration.ts'
import type { Amounts, ComparedCall, Comparison } from '#shared/operators/what-if.ts'

/** What a command prints, in both forms. */
export interface Rendered {
  /** Goes to standard error, so that a content alone can be redirected to a file. */
  readonly heading?: string
  readonly text: string
  readonly json: object
}

export function renderPublication(publication: Publication): Rendered {
  const { content } = publication
  return {
    heading: headOf(publication),
    text: JSON.stringify(content, null, 2),
    json: { ...summaryOf(publication), content },
  }
}

/** The content that changes nothing of the built-in catalog, which is in force before the first publication. */
export function renderBuiltIn(): Rendered {
  const content = { models: {} }
  return {
    heading: 'Nothing is published: the built-in catalog is in force (GET /v1/pricing). A catalog names what differs.',
    text: JSON.stringify(content, null, 2),
    json: { number: null, kind: 'catalog', content },
  }
}

export function renderHistory(publications: readonly PublicationSummary[]): Rendered {
  return {
    text: publications.length === 0 ? 'Nothing is published.' : publications.map(headOf).join('\n'),
    json: { publications: publications.map(summaryOf) },
  }
}

export function renderDraft({ content, basedOn, operator, editedAt }: Draft): Rendered {
  const base = basedOn === null ? 'nothing published' : `publication ${basedOn}`
  return {
    heading: `Draft of ${operator}, ${editedAt.toISOString()}, based on ${base}`,
    text: JSON.stringify(content, null, 2),
    json: { operator, edited_at: editedAt, based_on: basedOn?.toString() ?? null, content },
  }
}

function headOf({ number, publishedAt, operator, reason, fileSha256 }: PublicationSummary): string {
  return `${number}  ${publishedAt.toISOString()}  ${operator}${fileSha256 === null ? '' : ' (file)'}  ${reason}`
}

function summaryOf({ number, kind, publishedAt, operator, reason, fileSha256 }: PublicationSummary) {
  return {
    number: number.toString(),
    kind,
    published_at: publishedAt,
    operator,
    reason,
    file_sha256: fileSha256,
  }
}

export function renderReview({
  difference,
  whatIf,
  destinations,
  waiting,
  belowCost,
}: Extract<Review, { outcome: 'valid' }>): Rendered {
  const lines = [
    ...section('Changes', difference.changes.map(lineOf)),
    ...section('What callers are offered', difference.offers.map(lineOf)),
    ...(destinations.length === 0 ? [] : section('Where keys go', destinations.map(lineOfDestination))),
    ...waiting.map(({ model, calls }) => `${calls} accepted calls of ${model} depend on removed deployments`),
    ...belowCost,
    `The last ${whatIf.total.calls} calls${whatIf.since === null ? '' : `, since ${whatIf.since.toISOString()}`}`,
    ...[{ model: 'all', ...whatIf.total }, ...whatIf.byModel].map(
      (row) => `  ${row.model.padEnd(32)} ${comparisonOf(row)}`,
    ),
    ...whatIf.examples.map((example) => `  ${exampleOf(example)}`),
  ]
  return { text: lines.join('\n'), json: { difference, whatIf, destinations, waiting, belowCost } }
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return [title, ...(lines.length === 0 ? ['none'] : lines).map((line) => `  ${line}`)]
}

function lineOf({ subject, field, before, after }: Change): string {
  return field === null
    ? `${subject}: ${after ?? before ?? ''}`
    : `${subject}, ${field}: ${before ?? 'none'} → ${after ?? 'none'}`
}

function comparisonOf({ calls, refused, charged, quoted }: Comparison): string {
  return `${calls} calls, charged ${amountsOf(charged)}, quoted ${amountsOf(quoted)}, refused ${refused}`
}

function amountsOf({ past, inForce, draft }: Amounts): string {
  return `${dollarsFromAtomic(inForce)} → ${dollarsFromAtomic(draft)} USDC (then ${dollarsFromAtomic(past)})`
}

function exampleOf({ call, inForce, draft }: ComparedCall): string {
  const kind = call.charge === null ? 'at most ' : ''
  const past = dollarsFromAtomic(call.charge ?? call.quotedMaximum)
  return `${call.jobId} ${call.model}: ${kind}${pricedOf(call, inForce)} → ${pricedOf(call, draft)} (then ${past} USDC)`
}

function pricedOf({ charge }: ComparedCall['call'], priced: ComparedCall['draft']): string {
  if (priced.outcome === 'refused') return `refused, ${priced.why}`
  const amount = charge === null ? priced.quotedMaximum : priced.charge
  return amount === null ? 'unknown' : `${dollarsFromAtomic(amount)} USDC`
}
