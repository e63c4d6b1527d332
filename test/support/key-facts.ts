import type { SeenProcess } from '#shared/operators/process-report.ts'
import type { KeyFacts, KeySetting } from '../../infra/commands/keys/facts.ts'

export const NOW = new Date('2026-01-02T03:00:00Z')

export type Keys = Partial<Record<KeySetting, readonly string[]>>

/** Returns a process that reports these keys, started an hour ago. */
export function processWith(kind: SeenProcess['kind'], instance: string, keys: Keys, startedAt?: Date): SeenProcess {
  return {
    kind,
    instance,
    startedAt: startedAt ?? new Date(NOW.getTime() - 3_600_000),
    seenAt: NOW,
    report: { version: '1', configurationRevision: '1', keys },
  }
}

/** Returns facts about these processes, with nothing unfinished. */
export function factsOf(processes: readonly SeenProcess[], changes: Partial<KeyFacts> = {}): KeyFacts {
  return {
    now: NOW,
    processes,
    use: { jobsByFacilitator: {}, jobsByRecipient: {}, transactionsByFacilitator: {}, resultsByReceiptSecret: {} },
    gasWei: null,
    listedKeys: null,
    challengeSeconds: 600,
    rotations: [],
    ...changes,
  }
}
