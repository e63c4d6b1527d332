import {
  apisOf,
  contractsOf,
  type KeyFacts,
  type KeySetting,
  keysInUse,
  keysOf,
  settlersOf,
  workersOf,
} from './facts.ts'

/** Settings of the API whose values any other API has to know. */
const SHARED: readonly KeySetting[] = ['PAY_TO', 'CHALLENGE_SECRET', 'RECEIPT_SECRETS', 'RECEIPT_SIGNING_KEY']

/** Returns what fails calls now: a key that one process uses and another one does not know. */
export function findProblems(facts: KeyFacts): readonly string[] {
  const [apis, workers, settlers] = [apisOf(facts), workersOf(facts), settlersOf(facts)]
  const problems = SHARED.flatMap((setting) => {
    const used = new Set(apis.flatMap((api) => keysOf(api, setting).slice(0, 1)))
    return [...used].flatMap((key) => {
      const unaware = apis.filter((api) => !keysOf(api, setting).includes(key))
      return unaware.length === 0 ? [] : [`${unaware.length} of ${apis.length} APIs do not accept ${key} of ${setting}`]
    })
  })
  const offered = keysInUse(apis, 'FACILITATOR_ADDRESSES')
  const held = (key: string) => settlers.some((settler) => keysOf(settler, 'SETTLEMENT_PRIVATE_KEYS').includes(key))
  const refused = (key: string) =>
    apis.some(
      (api) =>
        ![...keysOf(api, 'FACILITATOR_ADDRESSES'), ...keysOf(api, 'ACCEPTED_FACILITATOR_ADDRESSES')].includes(key),
    )
  const receiptIds = keysInUse(apis, 'RECEIPT_SECRETS').map((key) => key.split(':')[0])
  return [
    ...problems,
    ...offered.filter(refused).map((key) => `an API does not accept payments for ${key}, which another one asks for`),
    ...(settlers.length === 0
      ? []
      : offered.filter((key) => !held(key)).map((key) => `no settler has the key of ${key}`)),
    ...keysInUse(workers, 'RECEIPT_SECRET_ID')
      .filter((id) => apis.length > 0 && !receiptIds.includes(id))
      .map((id) => `no API has the receipt secret ${id}, which workers use`),
    ...contractProblems(facts),
    ...unfinishedWithout(facts),
  ]
}

/** Names what keeps payments for the settlement contract from being settled. */
function contractProblems(facts: KeyFacts): readonly string[] {
  const [workers, settlers] = [workersOf(facts), settlersOf(facts)]
  const held = keysInUse(settlers, 'SETTLEMENT_PRIVATE_KEYS')
  return keysInUse(apisOf(facts), 'SETTLEMENT_CONTRACT').flatMap((contract) => {
    const unaware = workers.filter((worker) => !keysOf(worker, 'SETTLEMENT_CONTRACT').includes(contract))
    const listed = facts.listedKeys?.[contract]
    return [
      ...(unaware.length === 0
        ? []
        : [`${unaware.length} of ${workers.length} workers do not have the SETTLEMENT_CONTRACT ${contract}`]),
      ...(listed && held.length > 0 && !held.some((key) => listed.includes(key))
        ? [`${contract} lists none of the settlers' keys, so that no payment for it can be settled`]
        : []),
    ]
  })
}

/** Names settlement keys that have been removed although calls still wait for them. */
function unfinishedWithout(facts: KeyFacts): readonly string[] {
  const held = keysInUse(settlersOf(facts), 'SETTLEMENT_PRIVATE_KEYS')
  if (held.length === 0) return []
  const { jobsByFacilitator, transactionsByFacilitator } = facts.use
  const contracts = contractsOf(facts)
  // Accepted besides keys: a contract that is being replaced.
  const isContract = (key: string) =>
    contracts.includes(key) ||
    (contracts.length > 0 &&
      transactionsByFacilitator[key] === undefined &&
      keysInUse(apisOf(facts), 'ACCEPTED_FACILITATOR_ADDRESSES').includes(key))
  const needed = new Set([...Object.keys(jobsByFacilitator), ...Object.keys(transactionsByFacilitator)])
  return [...needed]
    .filter((key) => !held.includes(key) && !isContract(key))
    .map((key) => {
      const [jobs, transactions] = [jobsByFacilitator[key] ?? 0, transactionsByFacilitator[key] ?? 0]
      return `${jobs} calls and ${transactions} transactions need the key of ${key}, which no settler has: bring it back`
    })
}
