import { readFileSync, statSync } from 'node:fs'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'
import { walletFromPrivateKey } from './wallet-from-private-key.ts'
import type { Wallet } from './wallet.ts'

const OTHERS_MAY_READ = 0o077

export const NO_WALLET = {
  problem: 'No wallet is configured.',
  advice: 'Set FAREBOX_PRIVATE_KEY, or FAREBOX_KEY_FILE to a file with mode 600.',
} as const

/** Creates the wallet of FAREBOX_PRIVATE_KEY or of the file that FAREBOX_KEY_FILE names. */
export function walletFromEnvironment(environment: NodeJS.ProcessEnv = process.env): Wallet {
  const { FAREBOX_PRIVATE_KEY: key, FAREBOX_KEY_FILE: file } = environment
  if (key !== undefined && key !== '') return walletFromPrivateKey(key)
  if (file !== undefined && file !== '') return walletFromKeyFile(file)
  throw walletError(NO_WALLET.problem, NO_WALLET.advice)
}

/** Creates the wallet of a file that contains a private key and that only its owner may read. */
export function walletFromKeyFile(path: string): Wallet {
  const { mode, text } = readKeyFile(path)
  // Windows has no such modes.
  if (process.platform !== 'win32' && (mode & OTHERS_MAY_READ) !== 0)
    throw walletError(
      `The key file ${path} is accessible to other users (mode ${(mode & 0o777).toString(8)}).`,
      `Run: chmod 600 ${path}`,
    )
  return walletFromPrivateKey(text)
}

function readKeyFile(path: string): { mode: number; text: string } {
  try {
    return { mode: statSync(path).mode, text: readFileSync(path, 'utf8') }
  } catch (error) {
    throw walletError(`The key file ${path} cannot be read.`, 'Check its path and owner.', error)
  }
}

function walletError(problem: string, advice: string, cause?: unknown): FareboxError {
  return uncharged('no_wallet', problem, advice, cause)
}
