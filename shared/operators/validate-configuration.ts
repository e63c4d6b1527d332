import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import { type DeploymentsFile, parseDeployments, parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { type ProviderKeys, refuseOwnSettings, whyNotAllowed } from '#shared/catalog/provider-keys.ts'
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
  refuseOwnSettings(file)
  return { content: JSON.parse(text) as JsonValue, file }
}

/** The contents that are to be in force together. */
export interface ConfigurationContents {
  readonly catalog: JsonValue
  readonly deployments: JsonValue
  /** The running workers that call providers, which may refuse a deployment; none when they are not known. */
  readonly workers?: readonly WorkerKeys[]
}

/** Where a running worker sends provider keys. */
export interface WorkerKeys {
  readonly instance: string
  readonly providerKeys: ProviderKeys
}

/** Returns why a content cannot be published, together with the other one that is in force; `null` when it can. */
export function problemOf(kind: PublicationKind, contents: ConfigurationContents): string | null {
  try {
    const storable = JSON.stringify(contents[kind])
    if (storable.includes('\\u0000')) return 'The text contains a NUL character, which cannot be stored.'
    const file = parseDeployments(contents.deployments)
    catalogsOf({ overrides: contents.catalog, file }, 'refuse')
    if (kind === 'deployments') refuseDestinations(file, contents.workers ?? [])
    if (kind === 'catalog') refuseFreePrices(contents.catalog)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : 'The content is not valid.'
  }
}

/** Throws for deployments that send a key where it does not belong, naming the worker that would not send it. */
function refuseDestinations(file: DeploymentsFile, workers: readonly WorkerKeys[]): void {
  refuseOwnSettings(file)
  for (const entry of file.deployments)
    for (const { instance, providerKeys } of workers) {
      const problem = whyNotAllowed(entry, providerKeys)
      if (problem !== null) throw new Error(`deployment ${entry.name}, worker ${instance}: ${problem}`)
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
