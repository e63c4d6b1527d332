import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { buildOpenApiDocument } from '../../api/openapi/document.ts'
import { describeServer, generatedFiles } from '../../client/mcp/description/generate/generated-files.ts'
import { buildSettlementContract } from '../../infra/contracts/build-settlement-contract.ts'
import { PUBLIC_BASE_URL, terms } from '../integration/routes/compose-app.ts'
import { type JsonSchema, renderTypes } from '../support/client/render-types.ts'
import { renderSettingNames } from '../support/deployment/deployed-settings.ts'
import { RULES_FILES, readRuleGroups } from '../support/deployment/operator-files.ts'
import { renderOptions } from '../support/vendors/options/option-table.ts'
import { renderRequestBodies } from '../support/vendors/request-bodies.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

describe('every generated file is current (`npm run generate` writes them)', () => {
  const document = buildOpenApiDocument({
    publishedCatalog,
    operations,
    terms,
    publicBaseUrl: PUBLIC_BASE_URL,
    contactEmail: 'operator@farebox.example',
  })

  test('the OpenAPI document [spec O34]', async () => {
    await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot('fixtures/openapi.json.snap')
  })

  test('the client’s types of the public interface', async () => {
    const { schemas } = (document as unknown as { components: { schemas: Record<string, JsonSchema> } }).components
    await expect(renderTypes(schemas)).toMatchFileSnapshot(`${ROOT}client/wire/schemas.ts`)
  })

  test.each([...generatedFiles(describeServer())])('what agents read about the tools: %s', async (path, text) => {
    await expect(text).toMatchFileSnapshot(`${ROOT}client/${path}`)
  })

  test('the requests to vendors, which the compiler holds against the types of their SDKs', async () => {
    await expect(await renderRequestBodies()).toMatchFileSnapshot(
      `${ROOT}test/sdks/contract/fixtures/request-bodies.snap.ts`,
    )
  })

  test('the page of all options', async () => {
    await expect(await renderOptions()).toMatchFileSnapshot(`${ROOT}OPTIONS.md`)
  })

  test('the names of settings, none of which may be the key of a deployment', async () => {
    await expect(renderSettingNames()).toMatchFileSnapshot(`${ROOT}shared/catalog/setting-names.ts`)
  })

  test('the settlement contract, as the compiler of the lockfile makes it of its source, byte for byte', async () => {
    const text = `${JSON.stringify(await buildSettlementContract(), null, 2)}\n`
    await expect(text).toMatchFileSnapshot(`${ROOT}infra/contracts/SettlementContract.json`)
  })

  test('the PrometheusRule, with the rules of infra/prometheus and no others', async () => {
    const rule = {
      apiVersion: 'monitoring.coreos.com/v1',
      kind: 'PrometheusRule',
      metadata: {
        name: 'farebox',
        labels: { 'app.kubernetes.io/name': 'farebox', 'app.kubernetes.io/component': 'monitoring' },
      },
      spec: { groups: (await Promise.all(RULES_FILES.map(readRuleGroups))).flat() },
    }
    const text = `# Generated from infra/prometheus: npm run generate\n${stringify(rule, { lineWidth: 120 })}`
    await expect(text).toMatchFileSnapshot(`${ROOT}infra/kubernetes/monitoring/rules.yaml`)
  })
})
