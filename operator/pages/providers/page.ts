import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { DeploymentChange, DeploymentChangeOutcome } from '#shared/ledger/configuration/control-deployment.ts'
import type { ControlStore } from '#shared/ledger/configuration/control-store.ts'
import type { HealthInterval } from '#shared/ledger/console/machinery-store.ts'
import { HEALTH_WINDOWS, type HealthWindow } from '#shared/operators/health-window.ts'
import { type Chart, chartsOver, seconds } from '../../rendering/chart.ts'
import { addAction, addPage, done, notFound, refused } from '../../rendering/page.ts'
import { type ProvidersDependencies, readProviders } from './read-providers.ts'

export interface ProvidersPageDependencies extends ProvidersDependencies {
  readonly controls: ControlStore
}

const WINDOWS = Object.keys(HEALTH_WINDOWS) as [HealthWindow, ...HealthWindow[]]

const query = z.object({ window: z.enum(WINDOWS).catch('1h').default('1h') })

const reason = z.string().trim().min(1, 'Say why: it is kept with the change.').max(1000)

const MAXIMUM_WEIGHT = 1_000_000

/** Adds the providers: how each deployment does, and what acts on it at once. */
export function addProvidersPages(app: FastifyInstance, dependencies: ProvidersPageDependencies): void {
  const { machinery, controls } = dependencies
  addPage(app, {
    path: '/operator/providers',
    query,
    isLive: true,
    read: async ({ query: { window } }) => ({
      title: 'Providers',
      view: 'providers/providers',
      data: { ...(await readProviders(dependencies, window)), window, windows: WINDOWS },
    }),
  })
  addPage(app, {
    path: '/operator/providers/:name',
    query,
    read: async ({ params: { name }, query: { window } }) => {
      const { providers, drainedModels } = await readProviders(dependencies, window, name)
      const provider = providers.find((candidate) => candidate.name === name)
      if (!provider) return notFound(`There is no deployment “${name}”, and none of this name was ever called.`)
      const [failures, intervals, switched] = await Promise.all([
        machinery.readFailures(name, window),
        machinery.readIntervals(name, window),
        controls.readDeploymentControls(),
      ])
      return {
        title: `Provider ${name}`,
        view: 'providers/provider',
        hasCharts: true,
        data: {
          provider,
          drainedModels,
          failures,
          charts: chartsOf(intervals),
          intervals: intervals.filter(({ succeeded, failed }) => succeeded + failed > 0).toReversed(),
          control: switched.get(name) ?? null,
          window,
          windows: WINDOWS,
        },
      }
    },
  })
  addProviderActions(app, controls)
}

function addProviderActions(app: FastifyInstance, controls: ControlStore): void {
  const page = '/operator/providers/:name'
  addAction(app, {
    path: '/operator/providers/:name/drain',
    page,
    fields: z.object({ reason }),
    run: async ({ params: { name: deployment }, fields }, author) =>
      answer(
        { deployment, isDrained: true, ...fields },
        await controls.controlDeployment(author, { deployment, isDrained: true, ...fields }),
      ),
  })
  addAction(app, {
    path: '/operator/providers/:name/enable',
    page,
    fields: z.object({ reason }),
    run: async ({ params: { name: deployment }, fields }, author) =>
      answer(
        { deployment, isDrained: false, ...fields },
        await controls.controlDeployment(author, { deployment, isDrained: false, ...fields }),
      ),
  })
  addAction(app, {
    path: '/operator/providers/:name/weight',
    page,
    fields: z.object({ weight, reason }),
    run: async ({ params: { name: deployment }, fields }, author) =>
      answer({ deployment, ...fields }, await controls.controlDeployment(author, { deployment, ...fields })),
  })
}

/** An empty field stands for the published weight. */
const weight = z
  .string()
  .trim()
  .regex(/^\d*$/, 'A whole number, or nothing for the published weight.')
  .transform((text) => (text === '' ? null : Number(text)))
  .refine((value) => value === null || (value >= 1 && value <= MAXIMUM_WEIGHT), 'From 1 to 1,000,000.')

function answer({ deployment, isDrained, weight }: DeploymentChange, outcome: DeploymentChangeOutcome) {
  const location = `/operator/providers/${encodeURIComponent(deployment)}`
  if (outcome.outcome === 'unknown_deployment') return refused(`No deployment “${deployment}” is published.`)
  // Another operator was first: the form that asked for it is not on the page any more.
  if (outcome.outcome === 'unchanged') return done(`Nothing was changed: ${deployment} is like this already.`, location)
  const what =
    isDrained === undefined
      ? `${deployment} now has ${weight === null || weight === undefined ? 'its published weight' : `the weight ${weight}`}.`
      : `${deployment} is ${isDrained ? 'drained: it gets no new call' : 'called again'}.`
  const withheld =
    outcome.drainedModels.length === 0 ? '' : ` Not offered until one is enabled: ${outcome.drainedModels.join(', ')}.`
  return done(`${what} All processes apply this within 2 seconds.${withheld}`, location)
}

/** Returns the charts of a deployment: its calls, and how long they took. */
function chartsOf(intervals: readonly HealthInterval[]): readonly Chart[] {
  const chart = chartsOver(intervals.map(({ startedAt }) => startedAt))
  return [
    chart('Calls', 'calls', [
      { label: 'Succeeded', tone: 'good', values: intervals.map(({ succeeded }) => succeeded) },
      { label: 'Failed', tone: 'bad', values: intervals.map(({ failed }) => failed) },
    ]),
    chart('Duration of successful calls', 's', [
      { label: 'Median', tone: 'accent', values: intervals.map(({ medianMs }) => seconds(medianMs)) },
      { label: '95th percentile', tone: 'muted', values: intervals.map(({ p95Ms }) => seconds(p95Ms)) },
    ]),
  ]
}
