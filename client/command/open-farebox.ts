import type { Farebox, FareboxOptions, Wallet } from '../farebox.ts'
import type { Io } from './io.ts'
import { requireUrl, type Settings } from './settings.ts'

/** Opens the library with the settings. It is loaded only here, so that help and completion begin at once. */
export async function openFarebox(
  settings: Settings,
  environment: Io['environment'],
  needsWallet: boolean,
  onApproved: FareboxOptions['onApproved'],
): Promise<Farebox> {
  const baseUrl = requireUrl(settings)
  const { createFarebox } = await import('../farebox.ts')
  const { rpcUrl, home, budget } = settings
  const wallet = needsWallet || hasWallet(settings, environment) ? await openWallet(settings) : await throwawayWallet()
  const journal = home === undefined ? {} : { journal: home }
  return await createFarebox({ wallet, baseUrl, rpcUrl, budget, onApproved, ...journal })
}

/** The file of the flag comes before the environment. */
async function openWallet({ keyFile }: Settings): Promise<Wallet> {
  const { walletFromEnvironment, walletFromKeyFile } = await import('../farebox.ts')
  return keyFile === undefined ? walletFromEnvironment() : walletFromKeyFile(keyFile)
}

function hasWallet({ keyFile }: Settings, environment: Io['environment']): boolean {
  return [keyFile, environment['FAREBOX_PRIVATE_KEY'], environment['FAREBOX_KEY_FILE']].some(Boolean)
}

/** Holds nothing and is forgotten: prices can be asked for before there is a wallet. */
async function throwawayWallet(): Promise<Wallet> {
  const { generatePrivateKey } = await import('viem/accounts')
  const { walletFromPrivateKey } = await import('../farebox.ts')
  return walletFromPrivateKey(generatePrivateKey())
}
