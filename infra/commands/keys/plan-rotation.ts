import type { KeyRotation } from '#shared/operators/key-rotation.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { apisOf, type KeyFacts, type KeySetting, keysOf, workersOf } from './facts.ts'
import { planSettlementKey } from './plan-settlement-key.ts'
import { changeOf, type Step, waitForCallers } from './step.ts'

/** Settings of the API that list the newest key first and accept all. */
const LISTS = { 'pay-to': 'PAY_TO', challenge: 'CHALLENGE_SECRET', statements: 'RECEIPT_SIGNING_KEY' } as const

/** A session that a wallet opened with a signature is good for this long, under the secret of challenges. */
const SESSION_SECONDS = 600

/**
 * Returns the steps of a rotation with what processes, ledger and chain say about each. The first one that is not done
 * comes next. In this order no process ever meets a key that it does not know, so no call fails.
 */
export function planRotation(rotation: KeyRotation, facts: KeyFacts): readonly Step[] {
  switch (rotation.kind) {
    case 'settlement':
      return planSettlementKey(rotation, facts)
    case 'receipts':
      return planReceiptSecret(rotation, facts)
    case 'pay-to':
    case 'challenge':
    case 'statements':
      return planList(rotation, facts, LISTS[rotation.kind])
  }
}

/**
 * Returns whether nothing is left to do: all steps are done, or no process knows either key any more, since both were
 * replaced in another way.
 */
export function isOver(rotation: KeyRotation, facts: KeyFacts): boolean {
  return isSuperseded(rotation, facts) || planRotation(rotation, facts).every(({ isDone }) => isDone)
}

export function isSuperseded({ newKey, oldKey }: KeyRotation, { processes }: KeyFacts): boolean {
  const known = processes.flatMap(({ report }) => Object.values(report.keys).flat())
  return processes.some(({ kind }) => kind === 'api') && !known.includes(newKey) && !known.includes(oldKey)
}

function planList(rotation: KeyRotation, facts: KeyFacts, setting: KeySetting): readonly Step[] {
  const { kind, newKey, oldKey } = rotation
  const apis = apisOf(facts)
  return [
    {
      instruction: `Append the new value to ${setting} of the APIs (old,new), and restart them one after the other.`,
      ...changeOf(apis, 'APIs', (api) => keysOf(api, setting).includes(newKey), 'do not accept it yet'),
    },
    {
      instruction: `Put the new value first in ${setting} of the APIs (new,old), and restart them one after the other.`,
      ...changeOf(apis, 'APIs', (api) => hasFirst(api, setting, newKey), 'do not use it yet'),
    },
    ...(kind === 'statements'
      ? []
      : [waitForCallers(apis, (api) => hasFirst(api, setting, newKey), waitOf(kind, facts))]),
    ...(kind === 'pay-to' ? [waitForJobs(facts.use.jobsByRecipient[oldKey] ?? 0, oldKey)] : []),
    {
      instruction:
        kind === 'statements'
          ? `Keep the old key second in ${setting} while its receipts are to verify. Remove it only if it has leaked.`
          : `Remove the old value from ${setting} of the APIs, and restart them one after the other.`,
      ...(kind === 'statements'
        ? { isDone: true, detail: 'its public key stays published' }
        : changeOf(apis, 'APIs', (api) => !keysOf(api, setting).includes(oldKey), 'still accept the old one')),
    },
  ]
}

function planReceiptSecret({ newKey, oldKey }: KeyRotation, facts: KeyFacts): readonly Step[] {
  const [apis, workers] = [apisOf(facts), workersOf(facts)]
  const [newId, oldId] = [idOf(newKey), idOf(oldKey)]
  const results = facts.use.resultsByReceiptSecret[oldId] ?? 0
  return [
    {
      instruction:
        'Append the new secret to RECEIPT_SECRETS of the APIs (old,new), and restart them one after the other.',
      ...changeOf(apis, 'APIs', (api) => keysOf(api, 'RECEIPT_SECRETS').includes(newKey), 'do not accept it yet'),
    },
    {
      instruction: 'Put it first in RECEIPT_SECRETS of the APIs (new,old), and restart them one after the other.',
      ...changeOf(apis, 'APIs', (api) => hasFirst(api, 'RECEIPT_SECRETS', newKey), 'do not use it yet'),
    },
    {
      instruction: `Set RECEIPT_SECRET_ID=${newId} on workers and settlers, and restart them one after the other.`,
      ...changeOf(workers, 'workers', (worker) => hasFirst(worker, 'RECEIPT_SECRET_ID', newId), 'do not use it yet'),
    },
    {
      instruction: 'Wait until the results whose receipts have a token of the old secret have expired.',
      isDone: results === 0,
      detail: `${results} stored results have a token of ${oldId}`,
    },
    {
      instruction: 'Remove the old secret from RECEIPT_SECRETS of the APIs: tokens of it open no receipt any more.',
      ...changeOf(apis, 'APIs', (api) => !keysOf(api, 'RECEIPT_SECRETS').includes(oldKey), 'still accept the old one'),
    },
  ]
}

/** Returns how long callers may hold what was issued with the old value. */
function waitOf(kind: KeyRotation['kind'], { now, challengeSeconds }: KeyFacts) {
  return {
    now,
    challengeSeconds: kind === 'challenge' ? Math.max(challengeSeconds, SESSION_SECONDS) : challengeSeconds,
  }
}

function waitForJobs(jobs: number, recipient: string): Step {
  return {
    instruction: 'Wait until the calls that were paid to the old address are settled.',
    isDone: jobs === 0,
    detail: `${recipient} has ${jobs} unfinished calls`,
  }
}

function hasFirst(process: SeenProcess, setting: KeySetting, key: string): boolean {
  return keysOf(process, setting)[0] === key
}

/** Returns the id of a key that processes report as `id:fingerprint`. */
function idOf(key: string): string {
  return key.split(':')[0] ?? ''
}
