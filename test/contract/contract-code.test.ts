import { type Hex, hashDomain, keccak256 } from 'viem'
import { beforeAll, expect, test } from 'vitest'
import { PUBLISHED_CONTRACTS } from '../../infra/preflight/contract-code.ts'
import { PERMIT2_ADDRESS } from '../../infra/sandbox/chain/canonical-contracts.ts'
import { DEVNET_ADDRESSES, startDevnet } from '../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'

/** Where Permit2 compares with the chain id, and returns the domain separator, that its constructor stored. */
const [CHAIN_ID_AT, DOMAIN_AT] = [6945, 6983]
/** As published for Permit2 on Base Sepolia: shows that the places and the computation are right. */
const ON_BASE_SEPOLIA = '0xdcde65555316946c298e4c60c6213eb5c3aeab4354d1f3fac5427236bcbb9ebe'

let canonical: { permit2: Hex; multicall3: Hex }
beforeAll(async () => {
  const devnet = await startDevnet({})
  const codeAt = (address: string) => callRpc<Hex>(devnet.rpcUrl, 'eth_getCode', [address, 'latest'])
  canonical = { permit2: await codeAt(PERMIT2_ADDRESS), multicall3: await codeAt(DEVNET_ADDRESSES.multicall3) }
  await devnet.stop()
})

function permit2CodeHash(chainId: number): Hex {
  const domain = hashDomain({
    domain: { name: 'Permit2', chainId: BigInt(chainId), verifyingContract: PERMIT2_ADDRESS },
    types: {
      EIP712Domain: [
        { name: 'name', type: 'string' },
        { name: 'chainId', type: 'uint256' },
        { name: 'verifyingContract', type: 'address' },
      ],
    },
  })
  const code = Buffer.from(canonical.permit2.slice(2), 'hex')
  Buffer.from(chainId.toString(16).padStart(64, '0'), 'hex').copy(code, CHAIN_ID_AT)
  Buffer.from(domain.slice(2), 'hex').copy(code, DOMAIN_AT)
  return keccak256(code)
}

const published = (name: string) => PUBLISHED_CONTRACTS.find((contract) => contract.name === name)?.codeHash

test('the code hash of Permit2 follows from its code and the chain', () => {
  expect(permit2CodeHash(84_532)).toBe(ON_BASE_SEPOLIA)
  expect(permit2CodeHash(8453)).toBe(published('Permit2'))
})

test('the code hash of Multicall3 is that of its code', () => {
  expect(keccak256(canonical.multicall3)).toBe(published('Multicall3'))
})
