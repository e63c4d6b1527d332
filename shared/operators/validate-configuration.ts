import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import { type DeploymentsFile, parseDeployments, parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { catalogsOf } from './catalogs-of-configuration.ts'
import type { PublicationKind } from './configuration.ts'

/** Parses and checks the text of a catalog file by itself. Throws an `Error` that names model, field and allowed range. */
export function readCatalogContent(text: string): JsonValue {
  const content = parseJson(text, 'catalog file')
  overrideCatalogWith(publishedCatalog, content)
  return content
}

/** Parses and checks the text of a deployments file by itself. Throws an `Error` that quotes no value. */
export function readDeploymentsContent(text: string): { readonly content: JsonValue; readonly file: DeploymentsFile } {
  const file = parseDeploymentsFile(text)
  return { content: JSON.parse(text) as JsonValue, file }
}

/** The contents that are to be in force together. */
export interface ConfigurationContents {
  readonly catalog: JsonValue
  readonly deployments: JsonValue
}

/** Returns why a content cannot be published, together with the other one that is in force; `null` when it can. */
export function problemOf(kind: PublicationKind, contents: ConfigurationContents): string | null {
  try {
    const storable = JSON.stringify(contents[kind])
    if (storable.includes('\\u0000')) return 'The text contains a NUL character, which cannot be stored.'
    catalogsOf({ overrides: contents.catalog, file: parseDeployments(contents.deployments) }, 'refuse')
    if (kind === 'catalog') refuseFreePrices(contents.catalog)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : 'The content is not valid.'
  }
}

/** Throws for a price of 0 in a valid catalog file: it is a slip more likely than a gift. */
function refuseFreePrices(content: JsonValue): void {
  const { models } = content as { readonly models: Readonly<Record<string, Readonly<Record<string, unknown>>>> }
  for (const [id, fields] of Object.entries(models))
    for (const [field, value] of Object.entries(fields))
      if (typeof value === 'string' && /^0+(\.0*)?$/.test(value))
        throw new Error(`catalog file, model "${id}": ${field} is ${value}; a price must be above 0`)
}

/** Parses JSON. Throws an `Error` that quotes nothing of it, since a key may be among it by mistake. */
export function parseJson(text: string, subject: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    throw new Error(`${subject}: not valid JSON`)
  }
}
