import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createConfigurationStore } from '#shared/adapters/postgres/configuration/configuration-store.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ConfigurationStore } from '#shared/operators/configuration-store.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'

const TRANSCRIPTION = 'speechvendor/scribe-v2'
const catalogOf = (price: string) => ({ models: { [TRANSCRIPTION]: { price_per_audio_hour_usd: price } } })
const deployments = sandboxDeployments({
  upstreamUrl: 'http://127.0.0.1:9',
  apiKeyEnv: 'KEY',
  models: publishedCatalog.models,
  voices: publishedCatalog.voices.map(({ id }) => id),
}) as unknown as JsonValue

let console: TestConsole
let store: ConfigurationStore
let actor: ConsoleVisitor
let reader: ConsoleVisitor
beforeAll(async () => {
  console = await startTestConsole()
  store = createConfigurationStore(console.ledger.pool)
  actor = await console.signIn('act')
  reader = await console.signIn('read')
  await jobInState(console.ledger, 'completed')
})
afterAll(() => console.close())
beforeEach(async () => {
  await console.ledger.sql('TRUNCATE configuration_drafts, publications')
  await store.importFile(
    { operator: 'test', source: 'command' },
    { kind: 'deployments', content: deployments, reason: 'first' },
  )
})

/** Returns the hidden fields of the form with this action. */
function hiddenFields(page: string, action: string): Record<string, string> {
  const form = page.split('<form').find((part) => part.includes(`action="${action}"`)) ?? ''
  const inputs = form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]))
}

async function saveDraft(visitor: ConsoleVisitor, content: unknown) {
  const page = (await visitor.get('/operator/catalog')).body
  return await visitor.submit('/operator/catalog/draft', {
    ...hiddenFields(page, '/operator/catalog/draft'),
    content: typeof content === 'string' ? content : JSON.stringify(content),
  })
}

describe('the page of the catalog', () => {
  it('a draft is edited, reviewed against the last calls, published with a reason, and listed', async () => {
    expect((await reader.get('/operator/catalog')).body).toContain('There is no draft')
    expect(await saveDraft(actor, catalogOf('0.119'))).toMatchObject({ status: 303 })
    const { body } = await actor.get('/operator/catalog')
    expect(body).toContain('price per audio hour usd')
    expect(body).toContain('The last 1 calls')
    const fields = { ...hiddenFields(body, '/operator/catalog/publish'), reason: 'cheaper <b>hours</b>' }
    expect(await actor.submit('/operator/catalog/publish', fields)).toMatchObject({ status: 303 })
    expect(await store.findNewest('catalog')).toMatchObject({ content: catalogOf('0.119'), operator: 'actor' })
    expect(await store.findDraft('catalog')).toBeNull()
    const after = (await reader.get('/operator/catalog')).body
    expect(after).toContain('cheaper &lt;b&gt;hours&lt;/b&gt;')
    expect(after).toContain('0.119 for an hour')
    const { number } = (await store.findNewest('catalog')) ?? { number: 0n }
    expect((await reader.get(`/operator/catalog/publications/${number}`)).body).toContain('0.119')
  })

  it('a draft that cannot be published is not saved, and the form shows why with what was entered', async () => {
    for (const [content, sentence] of [
      [catalogOf('0'), 'must be above 0'],
      [{ models: { nobody: {} } }, 'there is no model'],
      ['{"models": {', 'This is not valid JSON.'],
    ] as const) {
      const { status, body } = await saveDraft(actor, content)
      expect({ status, says: body.includes(sentence) }).toEqual({ status: 422, says: true })
    }
    expect(await store.findDraft('catalog')).toBeNull()
  })

  it('nobody overwrites an edit that they did not see, or publishes what they did not review', async () => {
    const page = (await actor.get('/operator/catalog')).body
    const seen = hiddenFields(page, '/operator/catalog/draft')
    await saveDraft(actor, catalogOf('0.118'))
    const late = { ...seen, content: JSON.stringify(catalogOf('0.117')) }
    expect((await actor.submit('/operator/catalog/draft', late)).status).toBe(422)
    const reviewed = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
    await saveDraft(actor, catalogOf('0.116'))
    expect((await actor.submit('/operator/catalog/publish', { ...reviewed, reason: 'x' })).status).toBe(422)
    const again = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
    await store.importFile(
      { operator: 'grace', source: 'command' },
      { kind: 'deployments', content: { deployments: [] }, reason: 'other' },
    )
    expect((await actor.submit('/operator/catalog/publish', { ...again, reason: 'x' })).status).toBe(422)
    expect(await store.findNewest('catalog')).toBeNull()
  })

  it('a publication needs a reason', async () => {
    await saveDraft(actor, catalogOf('0.118'))
    const fields = hiddenFields((await actor.get('/operator/catalog')).body, '/operator/catalog/publish')
    const { status, body } = await actor.submit('/operator/catalog/publish', { ...fields, reason: '  ' })
    expect({ status, says: body.includes('Say why') }).toEqual({ status: 422, says: true })
  })

  it('an earlier publication becomes the draft, and a draft can be discarded', async () => {
    const author = { operator: 'ada', source: 'command' } as const
    const first = await store.importFile(author, { kind: 'catalog', content: catalogOf('0.118'), reason: 'a' })
    await store.importFile(author, { kind: 'catalog', content: catalogOf('0.117'), reason: 'b' })
    const path = `/operator/catalog/publications/${first.number}`
    const fields = hiddenFields((await actor.get(path)).body, `${path}/draft`)
    expect((await actor.submit(`${path}/draft`, fields)).status).toBe(303)
    expect((await store.findDraft('catalog'))?.content).toEqual(catalogOf('0.118'))
    const { body } = await actor.get('/operator/catalog')
    expect(body).toContain('0.118')
    const discard = hiddenFields(body, '/operator/catalog/draft/discard')
    expect((await actor.submit('/operator/catalog/draft/discard', discard)).status).toBe(303)
    expect(await store.findDraft('catalog')).toBeNull()
  })

  it('an account that reads changes nothing', async () => {
    for (const action of ['draft', 'draft/discard', 'publish'])
      expect((await reader.submit(`/operator/catalog/${action}`, {})).status).toBe(403)
  })

  it.each(['0', '999999', 'x', '1e3', '99999999999999999999'])('publication %s does not exist', async (number) => {
    expect((await reader.get(`/operator/catalog/publications/${number}`)).status).toBe(404)
  })
})

describe('the page of the deployments', () => {
  it('shows what callers would lose before it is published', async () => {
    const page = (await actor.get('/operator/deployments')).body
    const fields = hiddenFields(page, '/operator/deployments/draft')
    const content = JSON.stringify({ deployments: [] })
    expect((await actor.submit('/operator/deployments/draft', { ...fields, content })).status).toBe(303)
    const { body } = await reader.get('/operator/deployments')
    expect(body).toContain('What callers are offered')
    expect(body).toContain(`model ${TRANSCRIPTION}`)
    expect(body).toContain('is not offered')
  })
})
