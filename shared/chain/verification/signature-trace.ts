import { encodeFunctionData, type Hex, numberToHex, type PublicClient, parseAbi, prepareEncodeFunctionData } from 'viem'
import { z } from 'zod'
import { PERMIT2_ADDRESS } from '../network/contracts.ts'
import { isRevert } from '../network/rpc-failure.ts'

/** How Permit2 asks an account with code. Source: EIP-1271. */
const isValidSignature = prepareEncodeFunctionData({
  abi: parseAbi(['function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)']),
  functionName: 'isValidSignature',
})
/** What an account returns for a signature that it takes: the function's selector. */
const MAGIC_VALUE = '0x1626ba7e'
const MAGIC_DIGITS = MAGIC_VALUE.length

/** Enough for every check that a settlement has room for. */
const TRACE_GAS = 200_000n

/** The question whether an account takes a signature. */
export interface SignatureQuestion {
  readonly payer: Hex
  readonly hash: Hex
  readonly signature: Hex
}

/** What ran when an account checked a signature. */
export interface SignatureTrace {
  /** Every account that was called or read besides payer and Permit2, in lower case. */
  readonly accounts: readonly Hex[]
  /** Whether the account's own storage was read. */
  readonly readsOwnStorage: boolean
  /** Of a transaction that only asks, its calldata included. */
  readonly gasUsed: bigint
  /** Whether the check reverted. */
  readonly reverted: boolean
}

/* The `error` of a reverted execution: geth, erigon and reth add it to the list, anvil returns nothing else. */
const REVERTED = { accessList: [], gasUsed: '0x0', error: 'execution reverted' }
const traceSchema = z.object({
  accessList: z.array(z.object({ address: z.string().regex(/^0x[0-9a-fA-F]{40}$/), storageKeys: z.array(z.string()) })),
  gasUsed: z.string().regex(/^0x[0-9a-fA-F]+$/),
  error: z.string().optional(),
})

/**
 * Lists the accounts that run while an account checks a signature, as Permit2 would have it done: one
 * `eth_createAccessList`. Rejects for a node that does not answer it.
 */
export async function traceSignature(client: PublicClient, question: SignatureQuestion): Promise<SignatureTrace> {
  const call = { ...questionCall(question), gas: numberToHex(TRACE_GAS) }
  const answer = await client
    .request({ method: 'eth_createAccessList', params: [call, 'latest'] } as never)
    .catch((error: unknown) => {
      if (isRevert(error)) return REVERTED
      throw error
    })
  const { accessList, gasUsed, error } = traceSchema.parse(answer)
  const own: readonly string[] = [question.payer, PERMIT2_ADDRESS.toLowerCase()]
  const accounts = new Set(accessList.map(({ address }) => address.toLowerCase() as Hex))
  return {
    accounts: [...accounts].filter((account) => !own.includes(account)),
    readsOwnStorage: accessList.some(
      ({ address, storageKeys }) => address.toLowerCase() === question.payer.toLowerCase() && storageKeys.length > 0,
    ),
    gasUsed: BigInt(gasUsed),
    reverted: error !== undefined,
  }
}

/** Asks an account whether it takes a signature: one `eth_call`. Rejects for a revert, too. */
export async function askSignature(client: PublicClient, question: SignatureQuestion): Promise<boolean> {
  const call = { ...questionCall(question), gas: numberToHex(TRACE_GAS) }
  const answer = await client.request({ method: 'eth_call', params: [call, 'latest'] })
  return answer.slice(0, MAGIC_DIGITS) === MAGIC_VALUE
}

function questionCall({ payer, hash, signature }: SignatureQuestion) {
  const from: Hex = PERMIT2_ADDRESS
  return { from, to: payer, data: encodeFunctionData({ ...isValidSignature, args: [hash, signature] }) }
}
