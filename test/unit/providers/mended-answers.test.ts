import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import type { Router, Slot } from '../../../workers/providers/route.ts'
import { measuredRouter } from '../../../workers/telemetry/deployment-metrics.ts'

const NAME = 'farebox_provider_answers_mended_total'
type Run = Slot['run']

/** A router whose only deployment answers as each call says. */
function routerOf(name: string): Router {
  const slot = {
    deployment: { name } as Deployment,
    isWithdrawn: () => false,
    run: ((call) => call(1000)) as Run,
  }
  return {
    async *candidates() {
      yield slot
    },
  } as unknown as Router
}

async function run(router: Router, outcome: object): Promise<void> {
  for await (const slot of router.candidates('model', {} as Parameters<Router['candidates']>[1]))
    await slot.run((() => Promise.resolve(outcome)) as unknown as Parameters<Run>[0], 'caller' as never)
}

const produced = (mended?: readonly string[]) => ({ outcome: 'produced', product: { usage: {}, mended } })

it('counts each field that was not as documented by deployment, and nothing of sound and failed answers', async () => {
  const registry = new Registry()
  const one = measuredRouter(registry, routerOf('one'))
  await run(one, produced(['finish_reason', 'prompt_tokens']))
  await run(one, produced(['finish_reason']))
  await run(one, produced())
  await run(one, { outcome: 'failed', code: 'provider_empty_output' })
  const { values = [] } = (await registry.getSingleMetric(NAME)?.get()) ?? {}
  expect(values.map(({ labels, value }) => [labels['deployment'], labels['field'], value])).toEqual([
    ['one', 'finish_reason', 2],
    ['one', 'prompt_tokens', 1],
  ])
})
