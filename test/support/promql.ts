import { parser } from '@prometheus-io/lezer-promql'

/** One metric that a query asks for, with its matchers. */
export interface Selector {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[]
}

export interface ParsedQuery {
  readonly selectors: readonly Selector[]
  /** Of `by (…)`. */
  readonly groupingLabels: readonly string[]
}

/** Parses a query with Prometheus's own grammar. Throws when it is not one. Grafana's variables stand for five minutes. */
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
