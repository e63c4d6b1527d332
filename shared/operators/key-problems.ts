import type { SeenProcess } from './process-report.ts'

/** What only the settlement key with this address, or the settlement contract, can bring to its end. */
export interface KeyUse {
  /** The address, in lower case. */
  readonly facilitator: string
  /** Unfinished jobs whose payment names it. */
  readonly jobs: number
  /** Transactions that it sent and that are not final: a reorganization may ask for them again. */
  readonly transactions: number
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

/** Settings of the API whose first value every other API has to know. */
const SHARED: readonly KeySetting[] = ['PAY_TO', 'CHALLENGE_SECRET', 'RECEIPT_SECRETS', 'RECEIPT_SIGNING_KEY']

/**
 * Returns what fails calls now, a sentence each: keys that one running process uses and another one does not know, and
 * settlement keys that unfinished calls need and no settler has. Keys are named as processes report them.
 */
export function findKeyProblems(running: readonly SeenProcess[], use: readonly KeyUse[]): readonly string[] {
  const apis = running.filter(({ kind }) => kind === 'api')
  const workers = running.filter(({ kind }) => kind === 'worker')
  const settlers = workers.filter((worker) => keysOf(worker, 'SETTLEMENT_PRIVATE_KEYS').length > 0)
  return [
    ...SHARED.flatMap((setting) => unacceptedKeys(apis, setting)),
    ...facilitatorProblems(apis, settlers),
    ...receiptSecretProblems(apis, workers),
    ...contractProblems(apis, workers),
    ...neededKeys(running, settlers, use),
  ]
}

function unacceptedKeys(apis: readonly SeenProcess[], setting: KeySetting): readonly string[] {
  const used = new Set(apis.flatMap((api) => keysOf(api, setting).slice(0, 1)))
  return [...used].flatMap((key) => {
    const unaware = apis.filter((api) => !keysOf(api, setting).includes(key))
    return unaware.length === 0 ? [] : [`${unaware.length} of ${apis.length} APIs do not accept ${key} of ${setting}`]
  })
}

function facilitatorProblems(apis: readonly SeenProcess[], settlers: readonly SeenProcess[]): readonly string[] {
  const offered = allKeys(apis, 'FACILITATOR_ADDRESSES')
  const held = allKeys(settlers, 'SETTLEMENT_PRIVATE_KEYS')
  return [
    ...offered
      .filter((key) => !apis.every((api) => acceptsPaymentsFor(api, key)))
      .map((key) => `an API does not accept payments for ${key}, which another one asks for`),
    ...(settlers.length === 0
      ? []
      : offered.filter((key) => !held.includes(key)).map((key) => `no settler has the key of ${key}`)),
  ]
}

function acceptsPaymentsFor(api: SeenProcess, key: string): boolean {
  return [...keysOf(api, 'FACILITATOR_ADDRESSES'), ...keysOf(api, 'ACCEPTED_FACILITATOR_ADDRESSES')].includes(key)
}

function receiptSecretProblems(apis: readonly SeenProcess[], workers: readonly SeenProcess[]): readonly string[] {
  const ids = allKeys(apis, 'RECEIPT_SECRETS').map((key) => key.split(':')[0])
  return allKeys(workers, 'RECEIPT_SECRET_ID')
    .filter((id) => apis.length > 0 && !ids.includes(id))
    .map((id) => `no API has the receipt secret ${id}, which workers use`)
}

function contractProblems(apis: readonly SeenProcess[], workers: readonly SeenProcess[]): readonly string[] {
  return allKeys(apis, 'SETTLEMENT_CONTRACT').flatMap((contract) => {
    const unaware = workers.filter((worker) => !keysOf(worker, 'SETTLEMENT_CONTRACT').includes(contract))
    return unaware.length === 0
      ? []
      : [`${unaware.length} of ${workers.length} workers do not have the SETTLEMENT_CONTRACT ${contract}`]
  })
}

/** Names settlement keys that have been removed although calls still wait for them. */
function neededKeys(
  running: readonly SeenProcess[],
  settlers: readonly SeenProcess[],
  use: readonly KeyUse[],
): readonly string[] {
  const held = allKeys(settlers, 'SETTLEMENT_PRIVATE_KEYS')
  if (held.length === 0) return []
  const contracts = allKeys(running, 'SETTLEMENT_CONTRACT')
  const accepted = allKeys(running, 'ACCEPTED_FACILITATOR_ADDRESSES')
  // Accepted besides keys: a contract that is being replaced, which sends no transactions itself.
  const isContract = ({ facilitator, transactions }: KeyUse) =>
    contracts.includes(facilitator) || (contracts.length > 0 && transactions === 0 && accepted.includes(facilitator))
  return use
    .filter((needed) => !held.includes(needed.facilitator) && !isContract(needed))
    .map(
      ({ facilitator, jobs, transactions }) =>
        `${jobs} calls and ${transactions} transactions need the key of ${facilitator}, which no settler has: bring it back`,
    )
}

/** Returns the keys of a setting that any of these processes has, in the order in which they name them. */
function allKeys(processes: readonly SeenProcess[], setting: KeySetting): readonly string[] {
  return [...new Set(processes.flatMap((process) => keysOf(process, setting)))]
}

function keysOf({ report }: SeenProcess, setting: KeySetting): readonly string[] {
  return report.keys[setting] ?? []
}
