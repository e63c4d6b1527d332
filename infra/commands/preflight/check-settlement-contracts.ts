import { keccak256, type PublicClient } from 'viem'
import { chainClientOf } from '#shared/chain/network/client.ts'
import { SETTLEMENT_CONTRACT_CODE_HASH, settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { openRpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { createListedKeys } from '#shared/chain/settlement-contract/listed-keys.ts'
import { settlementKeys } from '#shared/chain/signing/settlement-keys.ts'
import { readCode } from '#shared/chain/verification/payer-code.ts'
import { attempted } from './attempted.ts'
import type { Settings } from './check-settings.ts'
import { type Check, failed, judged, skipped } from './check.ts'

type Hex = `0x${string}`

const NAME = 'settlement contract'

/**
 * Checks the contract of `SETTLEMENT_CONTRACT`, and those of `ACCEPTED_FACILITATOR_ADDRESSES` that are no key of ours:
 * payments that were signed for a contract that is being replaced still settle through it.
 */
export async function checkSettlementContracts(
  { api, worker }: Settings,
  expectedCode: ReadonlyMap<string, string>,
): Promise<readonly Check[]> {
  const common = api ?? worker
  if (!common || common.FACILITATOR_URL !== undefined) return []
  const client = chainClientOf(openRpcNodes(common.RPC_URL, common.RPC_TIMEOUT_MS))
  const held = worker?.SETTLEMENT_PRIVATE_KEYS && settlementKeys(worker.SETTLEMENT_PRIVATE_KEYS).facilitators
  const keys = held ?? api?.FACILITATOR_ADDRESSES ?? []
  const { SETTLEMENT_CONTRACT: contract } = common
  const accepted = held ? (api?.ACCEPTED_FACILITATOR_ADDRESSES ?? []) : []
  const earlier = accepted.filter((address) => address !== contract && !held?.includes(address))
  const check = (address: Hex, setting: string) =>
    checkOne({ client, keys, codeHash: expectedCode.get(address) ?? SETTLEMENT_CONTRACT_CODE_HASH }, address, setting)
  return await Promise.all([
    contract === undefined
      ? skipped(NAME, 'none: each payment settles in a transaction of its own (SETTLEMENT_CONTRACT is not set)')
      : check(contract, 'SETTLEMENT_CONTRACT'),
    ...earlier.map((address) => check(address, 'ACCEPTED_FACILITATOR_ADDRESSES')),
  ])
}

interface Expected {
  readonly client: PublicClient
  /** The settlement keys, which the contract must list. */
  readonly keys: readonly Hex[]
  readonly codeHash: string
}

function checkOne({ client, keys, codeHash }: Expected, contract: Hex, setting: string): Promise<Check> {
  return attempted(NAME, `${contract} cannot be read`, async () => {
    const code = await readCode(client, contract)
    if (code === '0x')
      return failed(NAME, `${setting} has ${contract}, which has no code on this chain and is no settlement key either`)
    const found = keccak256(code)
    if (found !== codeHash)
      return failed(
        NAME,
        `${setting} has ${contract}, whose code hash is ${found} instead of ${codeHash}. Payments would go through code that nobody has reviewed here.`,
      )
    const call = { address: contract, abi: settlementContractAbi } as const
    const [listed, owner, proposed] = await Promise.all([
      createListedKeys(client, keys).read(contract),
      client.readContract({ ...call, functionName: 'owner' }),
      client.readContract({ ...call, functionName: 'proposedOwner' }),
    ])
    const owners = [owner, ...(BigInt(proposed) === 0n ? [] : [proposed])].map((address) => address.toLowerCase())
    const problems = [
      ...keys
        .filter((key) => !listed.includes(key))
        .map((key) => `${contract} does not list ${key}: have its owner list it, or that key settles no batch`),
      ...owners
        .filter((address) => keys.some((key) => key === address))
        .map(
          (address) => `${contract} is owned by the settlement key ${address}; its owner's key should be kept offline`,
        ),
    ]
    return judged(NAME, problems, `${contract} lists ${listed.length} of ${keys.length} keys; its owner is ${owner}`)
  })
}
