import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { uncharged } from '../wire/farebox-error.ts'
import { walletFromEnvironment, walletFromKeyFile } from './wallet-from-environment.ts'
import { walletFromAccount } from './wallet-from-private-key.ts'
import type { SigningAccount, Wallet } from './wallet.ts'

/** What a person sets for the command and its MCP server. */
export interface WalletSettings {
  /** The file of the flag, which comes before the environment. */
  readonly keyFile: string | undefined
  readonly environment: Readonly<NodeJS.ProcessEnv>
}

/**
 * Opens the wallet of a key file, of the module that FAREBOX_WALLET_MODULE names, or of FAREBOX_PRIVATE_KEY or
 * FAREBOX_KEY_FILE.
 *
 * @throws FareboxError `no_wallet` or `invalid_private_key`.
 */
export async function openWallet({ keyFile, environment }: WalletSettings): Promise<Wallet> {
  if (keyFile !== undefined) return walletFromKeyFile(keyFile)
  const module = environment['FAREBOX_WALLET_MODULE']
  return module ? await walletFromModule(module) : walletFromEnvironment(environment)
}

/** Creates the wallet of a module whose default export is a viem account or a promise of one. */
async function walletFromModule(path: string): Promise<Wallet> {
  let account: unknown
  try {
    const module = (await import(pathToFileURL(resolve(path)).href)) as { readonly default?: unknown }
    account = await module.default
  } catch (cause) {
    throw moduleError(path, 'cannot be loaded', cause)
  }
  if (!isSigning(account)) throw moduleError(path, 'has no viem account as its default export')
  return walletFromAccount(account)
}

function isSigning(account: unknown): account is SigningAccount {
  const { address, signMessage, signTypedData } = (account ?? {}) as Partial<Record<keyof SigningAccount, unknown>>
  return typeof address === 'string' && typeof signMessage === 'function' && typeof signTypedData === 'function'
}

function moduleError(path: string, problem: string, cause?: unknown) {
  const reason = cause instanceof Error ? `: ${cause.message}` : ''
  return uncharged(
    'no_wallet',
    `The module ${path} of FAREBOX_WALLET_MODULE ${problem}${reason}.`,
    'Let it end with `export default` and a viem account, or a promise of one.',
    cause,
  )
}
