import { parser } from '@prometheus-io/lezer-promql'
import { ERROR_CODES } from '#shared/errors/error-codes.ts'

/** A metric in a query, with its matchers. */
export interface Selector {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[]
}

export interface ParsedQuery {
  readonly selectors: readonly Selector[]
  /** The labels of `by (…)`. */
  readonly groupingLabels: readonly string[]
}

/**
 * Parses a query with Prometheus's grammar; Grafana's variables count as five minutes. Throws when it is not PromQL.
 */
export function parsePromQl(query: string): ParsedQuery {
  const text = query.replaceAll('$__rate_interval', '5m')
  const selectors: Selector[] = []
  const groupingLabels: string[] = []
  parser.parse(text).iterate({
    enter: ({ name, type, node, from, to }) => {
      if (type.isError) throw new Error(`not PromQL at ${from}: ${text}`)
      if (name === 'VectorSelector') selectors.push(readSelector(text.slice(from, to)))
      if (name === 'LabelName' && node.parent?.name === 'GroupingLabels') groupingLabels.push(text.slice(from, to))
    },
  })
  return { selectors, groupingLabels }
}

function readSelector(text: string): Selector {
  const matchers = [...text.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g)]
  return {
    metric: /^\w+/.exec(text)?.[0] ?? '',
    matchers: matchers.map(([, label = '', operator = '', value = '']) => ({ label, operator, value })),
  }
}

/** Labels that Prometheus adds to every series. */
const ADDED_LABELS = ['job', 'instance']

/**
 * Returns why a query would never return anything, given all series of the processes: a selector that matches no series
 * of its metric, or a grouping by a label that none of them has. A metric without series, such as an unused counter, is
 * skipped.
 */
export function problemsOf({ selectors, groupingLabels }: ParsedQuery, series: readonly string[]): readonly string[] {
  const found = selectors.map((selector) => {
    const own = series.filter((name) => name === selector.metric || name.startsWith(`${selector.metric}{`))
    return { selector, own, matching: own.filter((name) => matches(labelsOf(name), selector)) }
  })
  const unmatched = found.filter(({ own, matching }) => own.length > 0 && matching.length === 0)
  const matching = found.flatMap((one) => one.matching)
  const labels = new Set([...ADDED_LABELS, ...matching.flatMap((name) => Object.keys(labelsOf(name)))])
  const unknown = matching.length === 0 ? [] : groupingLabels.filter((label) => !labels.has(label))
  return [
    ...unmatched.map(({ selector }) => `${JSON.stringify(selector)} matches nothing`),
    ...unknown.map((label) => `nothing has the label ${label}`),
  ]
}

function labelsOf(series: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...series.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]),
  )
}

function matches(labels: Readonly<Record<string, string>>, { matchers }: Selector): boolean {
  return matchers.every(({ label, operator, value }) => {
    // The code of a failure that has not occurred.
    if (label === 'outcome' && Object.hasOwn(ERROR_CODES, value)) return label in labels
    const present = labels[label] ?? ''
    if (operator === '=') return present === value
    if (operator === '!=') return present !== value
    return new RegExp(`^(?:${value})$`).test(present) === (operator === '=~')
  })
}
