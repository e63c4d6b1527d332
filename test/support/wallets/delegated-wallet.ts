import { delegateTo } from '../chain/delegating-payer.ts'
import { createPayer, type Payer, type PayerOptions } from '../payer/payer.ts'
import { META_MASK_DELEGATOR, placePublished, type PublishedContract, SIMPLE_7702_ACCOUNT } from './published-code.ts'

/** Creates a payer whose account delegates to MetaMask's contract, as its wallet does when asked for a smart account. */
export function createMetaMaskAccount(rpcUrl: string, options?: PayerOptions): Promise<Payer> {
  return createDelegated(rpcUrl, META_MASK_DELEGATOR, options)
}

/** Creates a payer whose account delegates to eth-infinitism's contract. */
export function createSimple7702Account(rpcUrl: string, options?: PayerOptions): Promise<Payer> {
  return createDelegated(rpcUrl, SIMPLE_7702_ACCOUNT, options)
}

async function createDelegated(rpcUrl: string, contract: PublishedContract, options?: PayerOptions): Promise<Payer> {
  await placePublished(rpcUrl, contract)
  const payer = await createPayer(rpcUrl, options)
  await delegateTo(payer, contract.address)
  return payer
}
