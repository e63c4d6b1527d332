import { expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { addCatalogRoutes } from '../../../api/routes/catalogs.ts'
import { composeApp, limitTo } from './compose-app.ts'

it('GET /v1/catalogs/{version} answers 429 to an address that asks for too many versions', async () => {
  const catalogs = {
    find: async (version: string) => (version === publishedCatalog.version ? publishedCatalog : null),
  }
  const app = await composeApp((composed) => addCatalogRoutes(composed, { catalogs, limitRate: limitTo(2) }))
  const versions = [publishedCatalog.version, 'catalog-0123456789abcdef', 'catalog-fedcba9876543210']
  const answers = []
  for (const version of versions) answers.push(await app.inject(`/v1/catalogs/${version}`))
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 404, 429])
  expect(answers[2]?.json()).toMatchObject({ error: { code: 'rate_limited', payment: 'none', retry: 'same_request' } })
})
