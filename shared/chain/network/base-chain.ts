import { defineChain } from 'viem'
import { chainConfig } from 'viem/op-stack'
import { CHAIN_ID, MULTICALL3_ADDRESS } from './contracts.ts'

/** Base as viem describes it. Importing `viem/chains` loads every chain, a fifth of a process's startup time. */
export const base = defineChain({
  ...chainConfig,
  id: CHAIN_ID,
  name: 'Base',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [] } },
  contracts: { ...chainConfig.contracts, multicall3: { address: MULTICALL3_ADDRESS, blockCreated: 5022 } },
})
