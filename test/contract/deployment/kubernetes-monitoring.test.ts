import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { z } from 'zod'
import { type KubernetesObject, renderKustomization } from '../../support/deployment/kustomize.ts'
import { RULES_FILES, readRuleGroups } from '../../support/deployment/operator-files.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const INFRA = fileURLToPath(new URL('../../../infra/', import.meta.url))
const HEADER = `# Generated from infra/prometheus: npx vitest run test/contract/deployment/kubernetes-monitoring.test.ts --update\n`

test('the PrometheusRule contains the rules of infra/prometheus and no others', async () => {
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: {
      name: 'farebox',
      labels: { 'app.kubernetes.io/name': 'farebox', 'app.kubernetes.io/component': 'monitoring' },
    },
    spec: { groups: (await Promise.all(RULES_FILES.map(readRuleGroups))).flat() },
  }
  await expect(HEADER + stringify(rule, { lineWidth: 120 })).toMatchFileSnapshot(
    join(INFRA, 'kubernetes/monitoring/rules.yaml'),
  )
})

const podSchema = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()) }),
      spec: z.object({ containers: z.tuple([z.object({ ports: z.array(z.object({ name: z.string() })) })]) }),
    }),
  }),
})
const monitorSchema = z.object({
  spec: z.object({
    selector: z.object({
      matchLabels: z.record(z.string(), z.string()),
      matchExpressions: z.array(z.object({ key: z.string(), values: z.array(z.string()) })),
    }),
    podMetricsEndpoints: z.tuple([
      z.object({
        port: z.string(),
        relabelings: z.array(
          z.object({
            action: z.string(),
            sourceLabels: z.array(z.string()),
            targetLabel: z.string(),
            replacement: z.string(),
          }),
        ),
      }),
    ]),
  }),
})

describe.skipIf(!havePrograms('kubectl'))('the monitoring of the example overlay, rendered', () => {
  let objects: readonly KubernetesObject[]
  beforeAll(async () => {
    objects = await renderKustomization(INFRA, 'kubernetes/overlays/example')
  })
  const ofKind = (kind: string) => objects.filter((object) => object.kind === kind)
  const pods = () => ofKind('Deployment').map((object) => podSchema.parse(object))
  const monitor = () => monitorSchema.parse(ofKind('PodMonitor')[0]).spec

  test('the PodMonitor selects the pods of every process, by a port that they have', () => {
    const { selector, podMetricsEndpoints } = monitor()
    for (const { spec } of pods()) {
      const { labels } = spec.template.metadata
      expect(labels).toMatchObject(selector.matchLabels)
      for (const { key, values } of selector.matchExpressions) expect(values).toContain(labels[key])
      expect(spec.template.spec.containers[0].ports.map(({ name }) => name)).toContain(podMetricsEndpoints[0].port)
    }
  })

  test('Grafana finds the dashboard, which is the one of infra/grafana', async () => {
    const [found] = ofKind('ConfigMap').filter(({ metadata }) => metadata.name === 'farebox-dashboard')
    expect(found).toMatchObject({
      metadata: { labels: { grafana_dashboard: '1' } },
      data: { 'farebox.json': await readFile(join(INFRA, 'grafana/dashboard.json'), 'utf8') },
    })
  })

  test.skipIf(!havePrograms('promtool'))('Prometheus names the jobs of the pods as the alerts expect', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-discovery-'))
    try {
      const config = {
        scrape_configs: [
          {
            job_name: 'podMonitor/farebox/farebox/0',
            static_configs: pods().map(({ metadata, spec }) => ({
              targets: [`${metadata.name}:9402`],
              labels: metaLabelsOf(spec.template.metadata.labels),
            })),
            relabel_configs: monitor().podMetricsEndpoints[0].relabelings.map(
              ({ action, sourceLabels, targetLabel, replacement }) => ({
                action,
                source_labels: sourceLabels,
                target_label: targetLabel,
                replacement,
              }),
            ),
          },
        ],
      }
      const file = join(directory, 'prometheus.yml')
      await writeFile(file, stringify(config))
      const args = ['check', 'service-discovery', '--timeout=1s', file, 'podMonitor/farebox/farebox/0']
      const { stdout } = await promisify(execFile)('promtool', args)
      const found = z.array(z.object({ labels: z.object({ instance: z.string(), job: z.string() }) }))
      const jobs = found.parse(JSON.parse(stdout)).map(({ labels }) => labels.job)
      expect(jobs.sort()).toEqual(['farebox-api', 'farebox-console', 'farebox-settler', 'farebox-worker'])
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  })
})

/** Returns a pod's labels as Prometheus discovers them. */
function metaLabelsOf(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [
      `__meta_kubernetes_pod_label_${name.replaceAll(/[^a-zA-Z0-9_]/g, '_')}`,
      value,
    ]),
  )
}
