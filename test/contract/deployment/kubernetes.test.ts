import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { queueNames } from '#shared/jobs/job-queue.ts'
import {
  imageSettings,
  knownSettings,
  operatorsValues,
  readConfigOf,
  secondsToEnd,
  secretSettings,
} from '../../support/deployment/deployed-settings.ts'
import { findUnknownFields, validateObject } from '../../support/deployment/kubernetes-schema.ts'
import { type KubernetesObject, renderKustomization } from '../../support/deployment/kustomize.ts'
import {
  acceptTestJob,
  claimTestJob,
  createTestLedger,
  jobInState,
  type TestLedger,
} from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const KUBERNETES = fileURLToPath(new URL('../../../infra/kubernetes/', import.meta.url))

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

const ours = { api: 'api', worker: 'worker', settler: 'worker' } as const
type Name = keyof typeof ours
const names = Object.keys(ours) as Name[]

/** As they are written: every file of a folder that kustomize would read. */
async function readFolder(folder: string): Promise<readonly KubernetesObject[]> {
  const files = (await readdir(join(KUBERNETES, folder))).filter((name) => name !== 'kustomization.yaml')
  const texts = await Promise.all(files.map((name) => readFile(join(KUBERNETES, folder, name), 'utf8')))
  return texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject))
}

describe('the manifests as they are written', async () => {
  const objects = [
    ...(await readFolder('base')),
    ...(await readFolder('keda')),
    ...(await readFolder('overlays/example')),
  ]

  test.each(objects.map((object) => [object.kind, object.metadata.name, object] as const))(
    '%s %s fits the schema of its kind',
    async (_, __, object) => {
      await validateObject(object)
    },
  )

  test('no object has a field that its kind does not know', async () => {
    expect(await findUnknownFields(objects)).toEqual([])
  })

  test('a misspelt field, a wrong type and an unknown kind would be found', async () => {
    const [pdb] = objects.filter(({ kind }) => kind === 'PodDisruptionBudget')
    if (!pdb) throw new Error('no PodDisruptionBudget')
    const misspelt = { ...pdb, spec: { maxUnavailble: 1 } }
    expect((await findUnknownFields([misspelt])).join()).toContain('maxUnavailble')
    await expect(validateObject({ ...pdb, spec: { minAvailable: {} } } as KubernetesObject)).rejects.toThrow(
      'minAvailable',
    )
    await expect(validateObject({ ...pdb, kind: 'PodDisruption' })).rejects.toThrow('PodDisruption')
  })

  test('every file is part of what kustomize renders', async () => {
    for (const folder of ['base', 'keda', 'overlays/example']) {
      const kustomization = await readFile(join(KUBERNETES, folder, 'kustomization.yaml'), 'utf8')
      const { resources } = parse(kustomization) as { resources: string[] }
      const files = (await readdir(join(KUBERNETES, folder))).filter((name) => name !== 'kustomization.yaml')
      expect(resources.filter((path) => path.endsWith('.yaml')).sort()).toEqual(files.sort())
    }
  })
})

describe.skipIf(!havePrograms('kubectl'))('the example overlay, rendered', () => {
  let objects: readonly KubernetesObject[]
  beforeAll(async () => {
    objects = await renderKustomization(KUBERNETES, 'overlays/example')
  })
  const ofKind = (kind: string) => objects.filter((object) => object.kind === kind)
  const workload = (kind: string, name: string) => {
    const found = ofKind(kind).find(({ metadata }) => metadata.name === `farebox-${name}`)
    return workloadSchema.parse(found).spec
  }
  const podOf = (name: Name) => workload('Deployment', name).template.spec
  const containerOf = (name: Name) => podOf(name).containers[0]

  /** What the process would be started with: the config map, what stands there, and an operator's secrets. */
  function environmentOf(name: Name): Record<string, string> {
    const settings = ofKind('ConfigMap')[0] as KubernetesObject & { data: Record<string, string> }
    const { env, envFrom } = containerOf(name)
    expect(envFrom[0]?.configMapRef?.name).toBe(settings.metadata.name)
    const own = env.map(({ name: setting, value }) => [setting, value ?? operatorsValues[setting] ?? ''] as const)
    return { ...imageSettings, ...settings.data, ...Object.fromEntries(own) }
  }

  test('has what is meant to run, in one namespace, under the image’s whole name', () => {
    const kinds = [
      'Deployment',
      'Job',
      'PodDisruptionBudget',
      'ScaledObject',
      'NetworkPolicy',
      'HorizontalPodAutoscaler',
    ]
    expect(Object.fromEntries(kinds.map((kind) => [kind, ofKind(kind).length]))).toEqual({
      Deployment: 3,
      Job: 1,
      PodDisruptionBudget: 3,
      ScaledObject: 2,
      NetworkPolicy: 5,
      HorizontalPodAutoscaler: 1,
    })
    expect(new Set(objects.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['farebox']))
    const images = [...names.map(containerOf), workload('Job', 'migrate').template.spec.containers[0]]
    expect(new Set(images.map(({ image }) => image))).toEqual(new Set(['registry.example/farebox:0.1.0']))
  })

  test('still fits the schemas', async () => {
    for (const object of objects) await validateObject(object)
    expect(await findUnknownFields(objects)).toEqual([])
  })

  test.each(names)('%s is given what it needs, and nothing that no process knows', (name) => {
    const environment = environmentOf(name)
    expect(() => readConfigOf[ours[name]](environment)).not.toThrow()
    const own = containerOf(name).env.map(({ name: setting }) => setting)
    expect(own.filter((setting) => !knownSettings[ours[name]].has(setting))).toEqual([])
    const shared = Object.keys(environment).filter((setting) => !own.includes(setting))
    expect(shared.filter((setting) => !knownSettings.api.has(setting) && !knownSettings.worker.has(setting))).toEqual(
      [],
    )
  })

  test('a secret reaches only those who need it, and none stands in a manifest', () => {
    const holders = (wanted: string) =>
      names.filter((name) =>
        containerOf(name).env.some(({ name: setting, valueFrom }) => setting === wanted && valueFrom !== undefined),
      )
    expect(Object.fromEntries(secretSettings.map((secret) => [secret, holders(secret)]))).toMatchObject({
      CHALLENGE_SECRET: ['api'],
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
    })
    expect(ofKind('Secret')).toEqual([])
    const written = names.flatMap((name) => containerOf(name).env.filter(({ value }) => value !== undefined))
    expect(written.map(({ name }) => name).filter((name) => secretSettings.some((secret) => secret === name))).toEqual(
      [],
    )
  })

  test('worker and settler serve each queue once', () => {
    const served = (['worker', 'settler'] as const).flatMap(
      (name) => environmentOf(name)['WORKER_QUEUES']?.split(',') ?? [],
    )
    expect(served.sort()).toEqual([...queueNames].sort())
  })

  test.each(names)('%s has the time to end in good order', (name) => {
    const needed = secondsToEnd[ours[name]](environmentOf(name))
    expect(podOf(name).terminationGracePeriodSeconds).toBeGreaterThanOrEqual(needed)
  })

  test.each(names)('%s is probed where it listens', (name) => {
    const { ports, startupProbe, readinessProbe, livenessProbe } = containerOf(name)
    const environment = environmentOf(name)
    const metrics = { name: 'metrics', containerPort: readConfigOf[ours[name]](environment).METRICS_PORT }
    const http = { name: 'http', containerPort: readConfigOf.api(environmentOf('api')).PORT }
    expect(ports).toEqual(name === 'api' ? [http, metrics] : [metrics])
    for (const one of [startupProbe, livenessProbe])
      expect(one?.httpGet).toEqual({ path: '/healthz', port: ports[0]?.name })
    expect(readinessProbe?.httpGet.path).toBe(name === 'api' ? '/readyz' : undefined)
  })

  test('no pod runs as root, writes to its image or holds a token of the cluster', () => {
    const pods = [...names.map(podOf), workload('Job', 'migrate').template.spec]
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

  test('what an autoscaler sizes has no number of its own', () => {
    const scaled = [...ofKind('ScaledObject'), ...ofKind('HorizontalPodAutoscaler')].map(
      (object) => (object as unknown as { spec: { scaleTargetRef: { name: string } } }).spec.scaleTargetRef.name,
    )
    expect(scaled.sort()).toEqual(names.map((name) => `farebox-${name}`).sort())
    for (const name of names) expect(workload('Deployment', name).replicas).toBeUndefined()
  })

  test('every selector meets the pods that it means', () => {
    for (const name of names) {
      const { labels } = workload('Deployment', name).template.metadata
      const budget = ofKind('PodDisruptionBudget').find(({ metadata }) => metadata.name === `farebox-${name}`)
      const { matchLabels } = (budget as unknown as { spec: { selector: { matchLabels: object } } }).spec.selector
      expect(labels).toMatchObject(matchLabels)
    }
    const [service] = ofKind('Service') as unknown as [{ spec: { selector: object } }]
    expect(workload('Deployment', 'api').template.metadata.labels).toMatchObject(service.spec.selector)
  })
})

describe('the queries that KEDA scales by, asked of the real schema', () => {
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
  const all = async () => ({
    waiting: await ask('oldest-waiting-seconds'),
    unfinished: await ask('unfinished-jobs'),
    unsettled: await ask('oldest-unsettled-seconds'),
  })
  const wait = (jobId: string, seconds: number) =>
    ledger.sql('UPDATE jobs SET run_after = now() - make_interval(secs => $2), lease_expires_at = NULL WHERE id = $1', [
      jobId,
      seconds,
    ])

  test('without work all are 0', async () => {
    expect(await all()).toEqual({ waiting: 0, unfinished: 0, unsettled: 0 })
  })

  test('only those count that wait for the one kind of worker, and the oldest tells the age', async () => {
    await wait(await acceptTestJob(ledger), 3000)
    const held = await acceptTestJob(ledger)
    await wait(held, 50_000)
    await claimTestJob(ledger, held, 10 * PATIENCE_MS)
    const later = await acceptTestJob(ledger)
    await wait(later, -6000)
    const { id } = await jobInState(ledger, 'generated')
    await wait(id, 7000)
    await jobInState(ledger, 'completed')
    const { waiting, unfinished, unsettled } = await all()
    expect(waiting).toBeGreaterThanOrEqual(3000)
    expect(waiting).toBeLessThan(6000)
    expect(unfinished).toBe(3)
    expect(unsettled).toBeGreaterThanOrEqual(7000)
    expect(unsettled).toBeLessThan(10_000)
  })
})
