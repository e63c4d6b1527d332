import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'

export const PUBLICATION_KINDS = ['catalog', 'deployments'] as const

export type PublicationKind = (typeof PUBLICATION_KINDS)[number]

/** What operators changed about one deployment without a publication. */
export interface DeploymentControl {
  /** Takes no new calls; those in flight end as usual. */
  readonly isDrained: boolean
  /** In place of the published weight; `null` for that one. */
  readonly weight: number | null
}

/** What operators switch in an emergency. It depends on no published file, so that it acts where one cannot be read. */
export interface Switches {
  readonly pausedQueues: ReadonlySet<QueueName>
  /** Payers in lower case, each with the end of its block; `null` without an end. */
  readonly blockedPayers: ReadonlyMap<string, Date | null>
}

/** What operators have published, and switched about its deployments, as every process applies it. */
export interface Configuration {
  /** Rises with each change. */
  readonly revision: bigint
  /** The content of a catalog file: overrides of the built-in catalog. Number 0, without any, before the first one. */
  readonly catalog: { readonly number: bigint; readonly overrides: JsonValue }
  readonly deployments: { readonly number: bigint; readonly file: DeploymentsFile }
  /** Only of deployments with a control. */
  readonly controls: ReadonlyMap<string, DeploymentControl>
}

/** Returns whether a block can end then: later than now, and in a year of four digits, as every reader understands. */
export function isEndOfBlock(end: Date): boolean {
  return end > new Date() && end.getUTCFullYear() <= 9999
}
