import type { KeyUse } from '#shared/ledger/reports/key-use.ts'
import type { KeyRotation } from '#shared/operators/key-rotation.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'

/** What decides whether a step of a rotation is done. */
export interface KeyFacts {
  readonly now: Date
  /** The processes that report. */
  readonly processes: readonly SeenProcess[]
  readonly use: KeyUse
  /** Gas of the settlement keys in wei; `null` when no node was asked. */
  readonly gasWei: Readonly<Record<string, bigint>> | null
  /** The settlement keys that each settlement contract lists; `null` when no node was asked. */
  readonly listedKeys: Readonly<Record<string, readonly string[]>> | null
  /** How long a challenge is good. */
  readonly challengeSeconds: number
  readonly rotations: readonly KeyRotation[]
}

/** The settings that name keys, as processes report them. */
export type KeySetting =
  | 'PAY_TO'
  | 'FACILITATOR_ADDRESSES'
  | 'ACCEPTED_FACILITATOR_ADDRESSES'
  | 'SETTLEMENT_CONTRACT'
  | 'CHALLENGE_SECRET'
  | 'RECEIPT_SECRETS'
  | 'RECEIPT_SIGNING_KEY'
  | 'SETTLEMENT_PRIVATE_KEYS'
  | 'RECEIPT_SECRET_ID'

/** Returns what identifies the keys of a setting, in its order. */
export function keysOf({ report }: SeenProcess, setting: KeySetting): readonly string[] {
  return report.keys[setting] ?? []
}

export function apisOf({ processes }: Pick<KeyFacts, 'processes'>): readonly SeenProcess[] {
  return processes.filter(({ kind }) => kind === 'api')
}

export function workersOf({ processes }: Pick<KeyFacts, 'processes'>): readonly SeenProcess[] {
  return processes.filter(({ kind }) => kind === 'worker')
}

/** Returns the workers that settle with keys of their own. */
export function settlersOf(facts: Pick<KeyFacts, 'processes'>): readonly SeenProcess[] {
  return workersOf(facts).filter((worker) => keysOf(worker, 'SETTLEMENT_PRIVATE_KEYS').length > 0)
}

/** Returns the settlement contracts that processes name: several only while one replaces another. */
export function contractsOf({ processes }: Pick<KeyFacts, 'processes'>): readonly string[] {
  return keysInUse(processes, 'SETTLEMENT_CONTRACT')
}

/** Returns the keys of a setting that any of these processes has, in the order in which they name them. */
export function keysInUse(processes: readonly SeenProcess[], setting: KeySetting): readonly string[] {
  return [...new Set(processes.flatMap((process) => keysOf(process, setting)))]
}
