import type { Catalog } from '#shared/catalog/catalog.ts'
import { parseDeployments } from '#shared/catalog/deployments-file.ts'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'
import { catalogsOfContents } from './catalogs-of-configuration.ts'
import type { PublicationKind } from './configuration.ts'
import type { ConfigurationContents } from './validate-configuration.ts'

/** One difference. A subject without a field appears or disappears as a whole. */
export interface Change {
  /** Such as `model textmodel-2.5-pro`, `voice talia` or `deployment gemini-pro`. */
  readonly subject: string
  readonly field: string | null
  /** `null` where there is none. */
  readonly before: string | null
  readonly after: string | null
}

export interface ConfigurationDifference {
  /** Of the content itself: of the whole catalog, or of the deployments. */
  readonly changes: readonly Change[]
  /** Of what callers are offered when no deployment is drained. */
  readonly offers: readonly Change[]
}

/** Compares two configurations that are valid. */
export function compareConfigurations(
  kind: PublicationKind,
  before: ConfigurationContents,
  after: ConfigurationContents,
): ConfigurationDifference {
  const [old, changed] = [catalogsOfContents(before), catalogsOfContents(after)]
  return {
    changes:
      kind === 'catalog'
        ? compare(catalogSubjects(old.published), catalogSubjects(changed.published))
        : compare(deploymentSubjects(before), deploymentSubjects(after)),
    offers: compare(catalogSubjects(old.offered), catalogSubjects(changed.offered)),
  }
}

/** Models and voices are plain JSON. */
const plain = (value: unknown) => value as Readonly<Record<string, JsonValue>>

type Subjects = ReadonlyMap<string, Readonly<Record<string, JsonValue | undefined>>>

function catalogSubjects({ models, voices }: Catalog): Subjects {
  return new Map([
    ...models.map((model) => [`model ${model.id}`, plain(model)] as const),
    ...voices.map((voice) => [`voice ${voice.id}`, plain(voice)] as const),
  ])
}

function deploymentSubjects({ deployments }: ConfigurationContents): Subjects {
  return new Map(parseDeployments(deployments).deployments.map((entry) => [`deployment ${entry.name}`, entry] as const))
}

function compare(before: Subjects, after: Subjects): readonly Change[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((subject): readonly Change[] => {
    const [old, changed] = [before.get(subject), after.get(subject)]
    if (!old) return [{ subject, field: null, before: null, after: 'added' }]
    if (!changed) return [{ subject, field: null, before: 'removed', after: null }]
    return [...new Set([...Object.keys(old), ...Object.keys(changed)])].flatMap((field) => {
      const [left, right] = [textOf(old[field]), textOf(changed[field])]
      return left === right ? [] : [{ subject, field: fieldName(field), before: left, after: right }]
    })
  })
}

function textOf(value: JsonValue | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'string' ? value : canonicalJson(value)
}

/** `maximumChargeUsd` is `maximum charge usd`, `base_url` stays. */
function fieldName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}
