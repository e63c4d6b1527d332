import { MULTICALL3_ADDRESS, PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS } from '#shared/adapters/chain/network/contracts.ts'

export interface PublishedContract {
  readonly name: string
  readonly address: `0x${string}`
  /** keccak-256 of the running code on eip155:8453, in lower case. */
  readonly codeHash: string
}

/**
 * The contracts that never change. USDC is not among them: its issuer may replace its code.
 *
 * The hash of Permit2 is computed from its code with chain id and domain separator of Base
 * (test/contract/documents.test.ts); the proxy has no values of its own chain, and its hash is the one that others
 * have published for Base Sepolia.
 */
export const PUBLISHED_CONTRACTS: readonly PublishedContract[] = [
  {
    name: 'Permit2',
    address: PERMIT2_ADDRESS,
    codeHash: '0xa67739abc3ede9dbdc0491636c67d6a14ac07fab9030c3f509b1eb7b11dff8ed',
  },
  {
    name: 'the x402 upto proxy',
    address: UPTO_PROXY_ADDRESS,
    codeHash: '0x4662dc27323421a3698be49ac95f7b0dba141c238d31ef543248d1a11f8d8eec',
  },
  {
    name: 'Multicall3',
    address: MULTICALL3_ADDRESS,
    codeHash: '0xd5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891',
  },
]
