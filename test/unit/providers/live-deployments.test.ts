import { beforeEach, expect, test } from 'vitest'
import { type DeploymentEntry, parseDeployments } from '#shared/catalog/deployments-file.ts'
import type { ControlledDeployment } from '#shared/operators/controlled-deployments.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createLiveDeployments, type LiveDeployments } from '../../../workers/providers/live-deployments.ts'

const KEY = 'VENDOR_KEY'

const entryOf = (changes: Partial<DeploymentEntry> = {}): DeploymentEntry => {
  const [entry] = parseDeployments({
    deployments: [
      {
        name: 'first',
        adapter: 'gemini',
        base_url: 'http://vendor.test',
        api_key_env: KEY,
        upstream_model: 'gemini-2.5-pro',
        serves: ['model'],
        ...changes,
      },
    ],
  }).deployments
  if (!entry) throw new Error('no entry')
  return entry
}

const published = (changes: Partial<DeploymentEntry> = {}, isDrained = false): ControlledDeployment => ({
  entry: entryOf(changes),
  isDrained,
})

let applied: readonly Deployment[]
let live: LiveDeployments
beforeEach(() => {
  live = createLiveDeployments(
    {
      apply: (deployments) => {
        applied = deployments
      },
    },
    {
      environment: { [KEY]: 'secret-key' },
      http: () => Promise.reject(new Error('not called')),
      longestTimeoutSeconds: 60,
    },
  )
})

const first = () => {
  const [deployment] = applied
  if (!deployment) throw new Error('no deployment')
  return deployment
}

test('a deployment whose weight, priority, limits or models change keeps its ports', () => {
  live.apply([published()])
  const { text, lookUpModel } = first()
  expect(text).toBeDefined()
  live.apply([published({ weight: 5, priority: 2, max_concurrency: 3, serves: ['model', 'other'] }, true)])
  expect(first()).toMatchObject({
    weight: 5,
    priority: 2,
    maximumConcurrency: 3,
    serves: ['model', 'other'],
    isDrained: true,
  })
  expect(first().text).toBe(text)
  expect(first().lookUpModel).toBe(lookUpModel)
})

test.each<[string, Partial<DeploymentEntry>]>([
  ['address', { base_url: 'http://other.test' }],
  ['upstream model', { upstream_model: 'gemini-2.5-flash' }],
])('a deployment with another %s gets ports of its own', (_, changes) => {
  live.apply([published()])
  const { text } = first()
  live.apply([published(changes)])
  expect(first().text).not.toBe(text)
})

test('a deployment that is no longer looked up stops being looked up', () => {
  live.apply([published()])
  expect(first().lookUpModel).toBeDefined()
  live.apply([published({ look_up_model: false })])
  expect(first().lookUpModel).toBeUndefined()
})

test('deployments that cannot be used are left out and named, without a key', () => {
  live.apply([
    published(),
    { entry: entryOf({ name: 'without-key', api_key_env: 'MISSING_KEY' }), isDrained: false },
    { entry: entryOf({ name: 'too-slow', timeout_seconds: 61 }), isDrained: false },
  ])
  expect(applied.map(({ name }) => name)).toEqual(['first'])
  expect(live.current()).toEqual(applied)
  expect(live.unusable()).toEqual({
    'without-key': 'the environment variable MISSING_KEY is not set',
    'too-slow': expect.stringContaining('timeout_seconds is 61'),
  })
  expect(JSON.stringify(live.unusable())).not.toContain('secret-key')
  live.apply([published()])
  expect(live.unusable()).toEqual({})
})
