import { z } from 'zod'

/** Fields of the kinds below that the manifests use, by their definitions; anything else is an error. */
const metadata = z.strictObject({
  name: z.string(),
  namespace: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
})

const podMonitor = z.strictObject({
  apiVersion: z.literal('monitoring.coreos.com/v1'),
  kind: z.literal('PodMonitor'),
  metadata,
  spec: z.strictObject({
    selector: z.strictObject({
      matchLabels: z.record(z.string(), z.string()),
      matchExpressions: z.array(
        z.strictObject({ key: z.string(), operator: z.enum(['In', 'NotIn']), values: z.array(z.string()) }),
      ),
    }),
    podMetricsEndpoints: z.array(
      z.strictObject({
        port: z.string(),
        interval: z.string(),
        relabelings: z.array(
          z.strictObject({
            action: z.enum(['replace', 'keep', 'drop']),
            sourceLabels: z.array(z.string()),
            targetLabel: z.string(),
            replacement: z.string(),
          }),
        ),
      }),
    ),
  }),
})

const prometheusRule = z.strictObject({
  apiVersion: z.literal('monitoring.coreos.com/v1'),
  kind: z.literal('PrometheusRule'),
  metadata,
  spec: z.strictObject({
    groups: z.array(
      z.strictObject({
        name: z.string(),
        rules: z.array(
          z.strictObject({
            alert: z.string(),
            expr: z.string(),
            for: z.string().optional(),
            labels: z.record(z.string(), z.string()),
            annotations: z.record(z.string(), z.string()),
          }),
        ),
      }),
    ),
  }),
})

const gateway = z.strictObject({
  apiVersion: z.literal('gateway.networking.k8s.io/v1'),
  kind: z.literal('Gateway'),
  metadata,
  spec: z.strictObject({
    gatewayClassName: z.string(),
    listeners: z.array(
      z.strictObject({
        name: z.string(),
        protocol: z.enum(['HTTP', 'HTTPS']),
        port: z.int(),
        hostname: z.string(),
        tls: z.strictObject({
          mode: z.enum(['Terminate', 'Passthrough']),
          certificateRefs: z.array(z.strictObject({ name: z.string() })),
        }),
        allowedRoutes: z.strictObject({ namespaces: z.strictObject({ from: z.enum(['All', 'Same', 'Selector']) }) }),
      }),
    ),
  }),
})

const httpRoute = z.strictObject({
  apiVersion: z.literal('gateway.networking.k8s.io/v1'),
  kind: z.literal('HTTPRoute'),
  metadata,
  spec: z.strictObject({
    parentRefs: z.array(z.strictObject({ name: z.string() })),
    hostnames: z.array(z.string()),
    rules: z.array(
      z.strictObject({
        matches: z.array(
          z.strictObject({ path: z.strictObject({ type: z.enum(['PathPrefix', 'Exact']), value: z.string() }) }),
        ),
        timeouts: z.strictObject({ request: z.string(), backendRequest: z.string() }),
        backendRefs: z.array(z.strictObject({ name: z.string(), port: z.int() })),
      }),
    ),
  }),
})

/** The kinds of the Prometheus Operator and of the Gateway API. */
export const CUSTOM_RESOURCES = z.discriminatedUnion('kind', [podMonitor, prometheusRule, gateway, httpRoute])

const KINDS: readonly string[] = ['PodMonitor', 'PrometheusRule', 'Gateway', 'HTTPRoute']

export const isCustomResource = ({ kind }: { readonly kind: string }): boolean => KINDS.includes(kind)
