import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { type JsonSchema, renderTypes } from './render-types.ts'

const SNAPSHOT = new URL('../../../contract/fixtures/openapi.json.snap', import.meta.url)

describe('the client’s types of the public interface', () => {
  it('the types equal those of the OpenAPI document', async () => {
    const document = JSON.parse(await readFile(SNAPSHOT, 'utf8')) as {
      components: { schemas: Record<string, JsonSchema> }
    }
    await expect(renderTypes(document.components.schemas)).toMatchFileSnapshot('../../../../client/wire/schemas.ts')
  })
})
