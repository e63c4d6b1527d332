import { formatEther } from 'viem'
import type { KeyRotation } from '#shared/operators/key-rotation.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { apisOf, contractsOf, type KeyFacts, keysOf, settlersOf } from './facts.ts'
import { changeOf, type Step, waitForCallers } from './step.ts'

/**
 * Returns the steps that replace a settlement key. A payment that names a key can only be settled with it, so settlers
 * have the new key before any API accepts payments for it, and all APIs accept them before one asks for them. With a
 * settlement contract, settlers send batches with any key that it lists: it lists the new one before they have it, and
 * gives up the old one before they lose it, since only then nothing new is signed with it.
 */
export function planSettlementKey({ newKey, oldKey }: KeyRotation, facts: KeyFacts): readonly Step[] {
  const [apis, settlers] = [apisOf(facts), settlersOf(facts)]
  const offersNew = (api: SeenProcess) => offers(api, newKey) && !offers(api, oldKey)
  return [
    gasOf(newKey, facts),
    ...listing(newKey, true, facts),
    {
      instruction: 'Add the new key to SETTLEMENT_PRIVATE_KEYS of the settlers, and restart them one after the other.',
      ...changeOf(settlers, 'settlers', (settler) => holds(settler, newKey), 'do not have it yet'),
    },
    {
      instruction: `Set ACCEPTED_FACILITATOR_ADDRESSES=${newKey} on the APIs, and restart them one after the other.`,
      ...changeOf(apis, 'APIs', (api) => accepts(api, newKey), 'do not accept it yet'),
    },
    {
      instruction: `In FACILITATOR_ADDRESSES of the APIs replace ${oldKey} by ${newKey}, set ACCEPTED_FACILITATOR_ADDRESSES=${oldKey}, and restart them one after the other.`,
      ...changeOf(apis, 'APIs', offersNew, 'still ask for the old one'),
    },
    waitForCallers(apis, offersNew, facts),
    ...listing(oldKey, false, facts),
    openWorkOf(oldKey, facts),
    {
      instruction:
        'Remove the old address from ACCEPTED_FACILITATOR_ADDRESSES of the APIs, and restart them one after the other.',
      ...changeOf(apis, 'APIs', (api) => !accepts(api, oldKey), 'still accept the old one'),
    },
    {
      instruction:
        'Remove the old key from SETTLEMENT_PRIVATE_KEYS of the settlers, restart them, and move its gas away.',
      ...changeOf(settlers, 'settlers', (settler) => !holds(settler, oldKey), 'still have the old one'),
    },
  ]
}

function offers(api: SeenProcess, key: string): boolean {
  return keysOf(api, 'FACILITATOR_ADDRESSES').includes(key)
}

function accepts(api: SeenProcess, key: string): boolean {
  return offers(api, key) || keysOf(api, 'ACCEPTED_FACILITATOR_ADDRESSES').includes(key)
}

function holds(settler: SeenProcess, key: string): boolean {
  return keysOf(settler, 'SETTLEMENT_PRIVATE_KEYS').includes(key)
}

function gasOf(key: string, { gasWei }: KeyFacts): Step {
  const wei = gasWei?.[key]
  return {
    instruction: `Send gas to ${key}.`,
    // Without a node the operator has to know.
    isDone: wei === undefined || wei > 0n,
    detail: wei === undefined ? 'its balance was not read: RPC_URL is not set' : `it has ${formatEther(wei)} ETH`,
  }
}

/** A change of the contract's list by its owner; no step without a contract. */
function listing(key: string, isToBeListed: boolean, facts: KeyFacts): readonly Step[] {
  const contracts = contractsOf(facts)
  if (contracts.length === 0) return []
  const wrong = contracts.filter((contract) => facts.listedKeys?.[contract]?.includes(key) !== isToBeListed)
  const change = `npm run deploy:settlement-contract -- --set-key ${key}=${isToBeListed ? 'listed' : 'removed'} --contract ${contracts.join(' and ')}`
  const purpose = isToBeListed ? 'list the new key' : 'take the old key off its list'
  // Without a node the operator has to know.
  const isDone = facts.listedKeys === null || wrong.length === 0
  return [
    {
      instruction: `Have the owner of the settlement contract ${purpose}: ${change}`,
      isDone,
      detail: describeListing(facts, isDone ? contracts : wrong, key, isToBeListed === isDone),
    },
  ]
}

function describeListing(
  { listedKeys }: KeyFacts,
  contracts: readonly string[],
  key: string,
  isListed: boolean,
): string {
  if (listedKeys === null) return `the list of ${contracts.join(', ')} was not read: RPC_URL is not set`
  return `${contracts.join(', ')} ${isListed ? 'lists' : 'does not list'} ${key}`
}

function openWorkOf(key: string, { use, gasWei }: KeyFacts): Step {
  const jobs = use.jobsByFacilitator[key] ?? 0
  const transactions = use.transactionsByFacilitator[key] ?? 0
  const isDone = jobs === 0 && transactions === 0
  const wei = gasWei?.[key]
  const left = wei === undefined ? '' : `, ${formatEther(wei)} ETH left`
  return {
    instruction: 'Wait until everything that was signed for the old key is settled and final.',
    isDone,
    detail: `${key} has ${jobs} unfinished calls and ${transactions} open transactions${left}${isDone ? ': it may be removed' : ''}`,
  }
}
