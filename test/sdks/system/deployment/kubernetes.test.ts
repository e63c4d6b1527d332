import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { z } from 'zod'
import { QUEUE_NAMES } from '../../../../shared/jobs/job-queue.ts'
import {
  IMAGE_SETTINGS,
  KNOWN_SETTINGS,
  megabytesOf,
  neededMegabytes,
  OPERATOR_VALUES,
  readConfigOf,
  SECRET_SETTINGS,
  shutdownSeconds,
} from '../../../support/deployment/deployed-settings.ts'
import { type KubernetesObject, renderKustomization } from '../../../support/deployment/kustomize.ts'
import { acceptTestJob, claimTestJob, jobInState } from '../../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../../support/patience.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'
import { findUnknownFields, validateObject } from '../../support/kubernetes-schema.ts'

const INFRA = fileURLToPath(new URL('../../../../infra/', import.meta.url))
const KUBERNETES = join(INFRA, 'kubernetes')
const reference = z.object({ name: z.string(), key: z.string() })
const probe = z.object({ httpGet: z.object({ path: z.string(), port: z.string() }) })
const containerSchema = z.object({
  image: z.string(),
  args: z.array(z.string()).optional(),
  env: z
    .array(
      z.object({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z.object({ secretKeyRef: reference }).optional(),
      }),
    )
    .default([]),
  envFrom: z
    .array(
      z.object({
        configMapRef: z.object({ name: z.string() }).optional(),
        secretRef: z.object({ name: z.string() }).optional(),
      }),
    )
    .default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })).default([]),
  startupProbe: probe.optional(),
  readinessProbe: probe.optional(),
  livenessProbe: probe.optional(),
  resources: z.object({
    requests: z.object({ cpu: z.string(), memory: z.string() }),
    limits: z.object({ memory: z.string() }),
  }),
  securityContext: z.looseObject({}),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })).default([]),
})
interface PolicySpec {
  readonly podSelector: {
    readonly matchLabels?: Readonly<Record<string, string>>
    readonly matchExpressions?: readonly { readonly values: readonly string[] }[]
  }
  readonly ingress?: readonly unknown[]
}
/** Returns whether a selector selects the pods of a component. */
function admits({ matchLabels = {}, matchExpressions = [] }: PolicySpec['podSelector'], component: string): boolean {
  const { 'app.kubernetes.io/component': only = component } = matchLabels
  return only === component && matchExpressions.every(({ values }) => values.includes(component))
}
const PROCESS_KINDS = { api: 'api', worker: 'worker', settler: 'worker', console: 'operator' } as const
type Name = keyof typeof PROCESS_KINDS
const names = Object.keys(PROCESS_KINDS) as Name[]
/** Those that take part in a call, and are scaled. */
const PAID_NAMES = ['api', 'worker', 'settler'] as const
/** Reads every file of a folder that kustomize would read. */
async function readFolder(folder: string): Promise<readonly KubernetesObject[]> {
  const files = (await readdir(join(KUBERNETES, folder))).filter((name) => name !== 'kustomization.yaml')
  const texts = await Promise.all(files.map((name) => readFile(join(KUBERNETES, folder, name), 'utf8')))
  return texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject))
}
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
/** Returns a pod's labels as Prometheus discovers them. */
function metaLabelsOf(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [
      `__meta_kubernetes_pod_label_${name.replaceAll(/[^a-zA-Z0-9_]/g, '_')}`,
      value,
    ]),
  )
}

describe('the manifests', async () => {
  const objects = [
    ...(await readFolder('base')),
    ...(await readFolder('keda')),
    ...(await readFolder('monitoring')),
    ...(await readFolder('overlays/example')),
  ]

  test.each(objects.map((object) => [object.kind, object.metadata.name, object] as const))(
    '%s %s conforms to the schema of its kind',
    async (_, __, object) => {
      await validateObject(object)
    },
  )

  test('no manifest has a field that is unknown to its kind', async () => {
    expect(await findUnknownFields(objects)).toEqual([])
  })

  test('the schema check finds a misspelled field, a wrong type and an unknown kind', async () => {
    const [pdb] = objects.filter(({ kind }) => kind === 'PodDisruptionBudget')
    if (!pdb) throw new Error('no PodDisruptionBudget')
    const misspelled = { ...pdb, spec: { maxUnavailble: 1 } }
    expect((await findUnknownFields([misspelled])).join()).toContain('maxUnavailble')
    await expect(validateObject({ ...pdb, spec: { minAvailable: {} } } as KubernetesObject)).rejects.toThrow(
      'minAvailable',
    )
    await expect(validateObject({ ...pdb, kind: 'PodDisruption' })).rejects.toThrow('PodDisruption')
  })

  test('kustomize renders every file', async () => {
    for (const folder of ['base', 'keda', 'monitoring', 'overlays/example']) {
      const kustomization = await readFile(join(KUBERNETES, folder, 'kustomization.yaml'), 'utf8')
      const { resources } = parse(kustomization) as { resources: string[] }
      const files = (await readdir(join(KUBERNETES, folder))).filter(
        (name) => name !== 'kustomization.yaml' && name !== 'ingress.yaml',
      )
      expect(resources.filter((path) => path.endsWith('.yaml')).sort()).toEqual(files.sort())
    }
  })
})

describe('the KEDA queries', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger(2)
  })
  afterAll(() => ledger.close())

  async function ask(trigger: string): Promise<number> {
    const triggers = (await readFolder('keda')).flatMap(
      (object) =>
        (object as unknown as { spec: { triggers?: { name: string; metadata: { query: string } }[] } }).spec.triggers ??
        [],
    )
    const query = triggers.find(({ name }) => name === trigger)?.metadata.query
    const [row] = await ledger.sql<Record<string, number>>(query ?? '')
    return Object.values(row ?? {})[0] ?? Number.NaN
  }
  const askAll = async () => ({
    waiting: await ask('oldest-waiting-seconds'),
    unfinished: await ask('unfinished-jobs'),
    unsettled: await ask('oldest-unsettled-seconds'),
  })
  const backdate = (jobId: string, seconds: number) =>
    ledger.sql('UPDATE jobs SET run_after = now() - make_interval(secs => $2), lease_expires_at = NULL WHERE id = $1', [
      jobId,
      seconds,
    ])

  test('the KEDA queries return 0 without work', async () => {
    expect(await askAll()).toEqual({ waiting: 0, unfinished: 0, unsettled: 0 })
  })

  test('the KEDA queries count only jobs that wait for their kind of worker, and return the age of the oldest', async () => {
    await backdate(await acceptTestJob(ledger), 3000)
    const held = await acceptTestJob(ledger)
    await backdate(held, 50_000)
    await claimTestJob(ledger, held, 10 * PATIENCE_MS)
    const later = await acceptTestJob(ledger)
    await backdate(later, -6000)
    const deferred = await acceptTestJob(ledger)
    await ledger.execution.deferJob(await claimTestJob(ledger, deferred), 0)
    await backdate(deferred, 90_000)
    const { id } = await jobInState(ledger, 'generated')
    await backdate(id, 7000)
    await jobInState(ledger, 'completed')
    const { waiting, unfinished, unsettled } = await askAll()
    expect(waiting).toBeGreaterThanOrEqual(3000)
    expect(waiting).toBeLessThan(6000)
    expect(unfinished).toBe(3)
    expect(unsettled).toBeGreaterThanOrEqual(7000)
    expect(unsettled).toBeLessThan(10_000)
  })
})

describe('the Kubernetes manifests', () => {
  const podSchema = z.object({
    terminationGracePeriodSeconds: z.number().optional(),
    securityContext: z.looseObject({}),
    automountServiceAccountToken: z.boolean(),
    containers: z.tuple([containerSchema]),
  })
  const workloadSchema = z.object({
    spec: z.object({
      replicas: z.number().optional(),
      template: z.object({ metadata: z.object({ labels: z.record(z.string(), z.string()) }), spec: podSchema }),
    }),
  })
  test('the Ingress that replaces the Gateway is valid and leads to the API', async () => {
    const ingress = parse(await readFile(join(KUBERNETES, 'overlays/example/ingress.yaml'), 'utf8')) as KubernetesObject
    await validateObject(ingress)
    expect(await findUnknownFields([ingress])).toEqual([])
    expect(JSON.stringify(ingress)).toContain('{"service":{"name":"farebox-api","port":{"name":"http"}}}')
  })

  describe.skipIf(!havePrograms('kubectl'))('the example overlay, rendered', () => {
    let objects: readonly KubernetesObject[]
    beforeAll(async () => {
      objects = await renderKustomization(INFRA, 'kubernetes/overlays/example')
    })
    const ofKind = (kind: string) => objects.filter((object) => object.kind === kind)
    const ledgerJob = () => {
      const found = ofKind('CronJob').find(({ metadata }) => metadata.name === 'farebox-ledger')
      return z.object({ spec: z.object({ jobTemplate: workloadSchema }) }).parse(found).spec.jobTemplate.spec
    }
    const workload = (kind: string, name: string) => {
      const found = ofKind(kind).find(({ metadata }) => metadata.name === `farebox-${name}`)
      return workloadSchema.parse(found).spec
    }
    const podOf = (name: Name) => workload('Deployment', name).template.spec
    const containerOf = (name: Name) => podOf(name).containers[0]

    /**
     * Returns the environment of the process: the config map with an operator's own addresses, the container's settings
     * and an operator's secrets.
     */
    function environmentOf(name: Name): Record<string, string> {
      const settings = ofKind('ConfigMap').find(({ metadata }) =>
        metadata.name.startsWith('farebox-settings'),
      ) as KubernetesObject & { data: Record<string, string> }
      const { env, envFrom } = containerOf(name)
      expect(envFrom[0]?.configMapRef?.name).toBe(settings.metadata.name)
      const own = env.map(({ name: setting, value }) => [setting, value ?? OPERATOR_VALUES[setting] ?? ''] as const)
      const { PAY_TO = '', FACILITATOR_ADDRESSES = '', SETTLEMENT_CONTRACT = '' } = OPERATOR_VALUES
      // Those that the overlay has a sample of.
      const addresses = Object.entries({ PAY_TO, FACILITATOR_ADDRESSES, SETTLEMENT_CONTRACT })
      const filled = Object.fromEntries(addresses.filter(([setting]) => setting in settings.data))
      return { ...IMAGE_SETTINGS, ...settings.data, ...filled, ...Object.fromEntries(own) }
    }

    test('the overlay has the intended objects in one namespace, with the image’s full name', () => {
      const kinds = [
        'Deployment',
        'Job',
        'PodDisruptionBudget',
        'ScaledObject',
        'NetworkPolicy',
        'HorizontalPodAutoscaler',
      ]
      expect(Object.fromEntries(kinds.map((kind) => [kind, ofKind(kind).length]))).toEqual({
        Deployment: 4,
        Job: 1,
        PodDisruptionBudget: 3,
        ScaledObject: 2,
        NetworkPolicy: 6,
        HorizontalPodAutoscaler: 1,
      })
      expect(new Set(objects.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['farebox']))
      const jobs = [workload('Job', 'migrate'), ledgerJob()].map(({ template }) => template.spec.containers[0])
      const images = [...names.map(containerOf), ...jobs]
      expect(new Set(images.map(({ image }) => image))).toEqual(new Set(['registry.example/farebox:1.0.0']))
    })

    test('the rendered overlay conforms to the schemas', async () => {
      for (const object of objects) await validateObject(object)
      expect(await findUnknownFields(objects)).toEqual([])
    })

    test.each(names)('%s receives every required setting and none that is unknown to all processes', (name) => {
      const environment = environmentOf(name)
      expect(() => readConfigOf[PROCESS_KINDS[name]](environment)).not.toThrow()
      const own = containerOf(name).env.map(({ name: setting }) => setting)
      expect(own.filter((setting) => !KNOWN_SETTINGS[PROCESS_KINDS[name]].has(setting))).toEqual([])
      const shared = Object.keys(environment).filter((setting) => !own.includes(setting))
      const known = Object.values(KNOWN_SETTINGS)
      expect(shared.filter((setting) => !known.some((settings) => settings.has(setting)))).toEqual([])
    })

    test('each secret reaches only the processes that need it, and no manifest contains one', () => {
      const processesWith = (wanted: string) =>
        names.filter((name) =>
          containerOf(name).env.some(({ name: setting, valueFrom }) => setting === wanted && valueFrom !== undefined),
        )
      expect(Object.fromEntries(SECRET_SETTINGS.map((secret) => [secret, processesWith(secret)]))).toMatchObject({
        CHALLENGE_SECRET: ['api'],
        OPERATOR_INITIAL_PASSWORD: ['console'],
        RECEIPT_SECRETS: ['api'],
        RECEIPT_SIGNING_KEY: ['api'],
        SETTLEMENT_PRIVATE_KEYS: ['settler'],
      })
      const whole = names.map((name) => [
        name,
        containerOf(name).envFrom.flatMap(({ secretRef }) => secretRef?.name ?? []),
      ])
      expect(Object.fromEntries(whole)).toEqual({
        api: ['farebox-objects-api'],
        worker: ['farebox-objects-worker', 'farebox-provider-keys'],
        settler: ['farebox-objects-worker'],
        console: [],
      })
      expect(ofKind('Secret')).toEqual([])
      const written = names.flatMap((name) => containerOf(name).env.filter(({ value }) => value !== undefined))
      expect(
        written.map(({ name }) => name).filter((name) => SECRET_SETTINGS.some((secret) => secret === name)),
      ).toEqual([])
    })

    test('API, worker and settler settle through the contract by default, and do not start with the overlay’s sample', () => {
      const contract = OPERATOR_VALUES['SETTLEMENT_CONTRACT']
      for (const name of ['api', 'worker', 'settler'] as const) {
        const environment = environmentOf(name)
        const readSettings = readConfigOf[name === 'api' ? 'api' : 'worker']
        expect(readSettings(environment)).toMatchObject({ SETTLEMENT_CONTRACT: contract })
        const unfilled = { ...environment, SETTLEMENT_CONTRACT: `0x${'3'.padStart(40, '0')}` }
        expect(() => readSettings(unfilled)).toThrow('SETTLEMENT_CONTRACT')
      }
    })

    test('worker and settler together serve each queue once', () => {
      const served = (['worker', 'settler'] as const).flatMap(
        (name) => environmentOf(name)['WORKER_QUEUES']?.split(',') ?? [],
      )
      expect(served.sort()).toEqual([...QUEUE_NAMES].sort())
    })

    test.each(names)('%s has enough time to shut down gracefully', (name) => {
      const needed = shutdownSeconds[PROCESS_KINDS[name]](environmentOf(name))
      expect(podOf(name).terminationGracePeriodSeconds).toBeGreaterThanOrEqual(needed)
    })

    test.each(names)('%s is probed on the port it listens on', (name) => {
      const { ports, startupProbe, readinessProbe, livenessProbe } = containerOf(name)
      const environment = environmentOf(name)
      const metrics = { name: 'metrics', containerPort: readConfigOf[PROCESS_KINDS[name]](environment).METRICS_PORT }
      const http = {
        api: [{ name: 'http', containerPort: readConfigOf.api(environmentOf('api')).PORT }],
        console: [{ name: 'http', containerPort: readConfigOf.operator(environmentOf('console')).OPERATOR_PORT }],
        worker: [],
        settler: [],
      }[name]
      expect(ports).toEqual([...http, metrics])
      const path = name === 'console' ? '/operator/healthz' : '/healthz'
      for (const probe of [startupProbe, livenessProbe]) expect(probe?.httpGet).toEqual({ path, port: ports[0]?.name })
      expect(readinessProbe?.httpGet.path).toBe(name === 'api' ? '/readyz' : undefined)
    })

    test('no pod runs as root, writes to its image or has a token of the cluster', () => {
      const pods = [...names.map(podOf), workload('Job', 'migrate').template.spec, ledgerJob().template.spec]
      for (const { securityContext, automountServiceAccountToken, containers } of pods) {
        expect(automountServiceAccountToken).toBe(false)
        expect(securityContext).toMatchObject({
          runAsNonRoot: true,
          runAsUser: 1000,
          seccompProfile: { type: 'RuntimeDefault' },
        })
        expect(containers[0].securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
      }
    })

    test('DNS may be asked in kube-system and at NodeLocal DNSCache, and every pod that calls the chain may leave', () => {
      const policies = JSON.stringify(ofKind('NetworkPolicy'))
      expect(policies).toContain('169.254.20.10/32')
      const outside = ofKind('NetworkPolicy').find(({ metadata }) => metadata.name === 'farebox-outside')
      for (const component of [...names, 'ledger']) expect(JSON.stringify(outside)).toContain(`"${component}"`)
    })

    test('a process has the same memory limit in Kubernetes and in Compose', async () => {
      const compose = parse(await readFile(join(INFRA, '../docker-compose.yml'), 'utf8'), { merge: true }) as {
        services: Record<string, { mem_limit: string }>
      }
      for (const name of names)
        expect(containerOf(name).resources.limits.memory.toLowerCase()).toBe(`${compose.services[name]?.mem_limit}i`)
    })

    test.each(names)('the memory limit of %s is enough for what its settings let it hold', (name) => {
      const needed = neededMegabytes[PROCESS_KINDS[name]](environmentOf(name))
      expect(megabytesOf(containerOf(name).resources.limits.memory)).toBeGreaterThanOrEqual(needed)
    })

    test('a workload that an autoscaler scales has no fixed number of replicas', () => {
      const scaled = [...ofKind('ScaledObject'), ...ofKind('HorizontalPodAutoscaler')].map(
        (object) => (object as unknown as { spec: { scaleTargetRef: { name: string } } }).spec.scaleTargetRef.name,
      )
      expect(scaled.sort()).toEqual(PAID_NAMES.map((name) => `farebox-${name}`).sort())
      for (const name of PAID_NAMES) expect(workload('Deployment', name).replicas).toBeUndefined()
      expect(workload('Deployment', 'console').replicas).toBe(1)
    })

    test('every selector matches its pods', () => {
      for (const name of PAID_NAMES) {
        const { labels } = workload('Deployment', name).template.metadata
        const budget = ofKind('PodDisruptionBudget').find(({ metadata }) => metadata.name === `farebox-${name}`)
        const { matchLabels } = (budget as unknown as { spec: { selector: { matchLabels: object } } }).spec.selector
        expect(labels).toMatchObject(matchLabels)
      }
      for (const name of ['api', 'console'] as const) {
        const service = ofKind('Service').find(({ metadata }) => metadata.name === `farebox-${name}`)
        const { selector } = (service as unknown as { spec: { selector: object } }).spec
        expect(workload('Deployment', name).template.metadata.labels).toMatchObject(selector)
      }
    })

    test('no route leads to the console, and only a namespace that an operator labels for it may reach it', () => {
      for (const kind of ['Gateway', 'HTTPRoute', 'Ingress'])
        expect(JSON.stringify(ofKind(kind))).not.toMatch(/console|operator/)
      const admitting = ofKind('NetworkPolicy').filter((policy) => {
        const { podSelector, ingress = [] } = (policy as unknown as { spec: PolicySpec }).spec
        return admits(podSelector, 'console') && JSON.stringify(ingress).includes('"http"')
      })
      expect(admitting.map(({ metadata }) => metadata.name)).toEqual(['farebox-operators'])
      expect(JSON.stringify(admitting)).toContain('{"farebox.example/may-open-the-console":"true"}')
    })
  })
})

describe('monitoring in Kubernetes', () => {
  const podSchema = z.object({
    metadata: z.object({ name: z.string() }),
    spec: z.object({
      template: z.object({
        metadata: z.object({ labels: z.record(z.string(), z.string()) }),
        spec: z.object({ containers: z.tuple([z.object({ ports: z.array(z.object({ name: z.string() })) })]) }),
      }),
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
})
