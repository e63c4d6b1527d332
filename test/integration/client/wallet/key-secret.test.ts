import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readKeySecret } from '../../../../client/wallet/key-secret.ts'
import type { Wallet } from '../../../../client/wallet/wallet.ts'
import { walletFromAccount } from '../../../../client/wallet/wallet-from-account.ts'
import { walletFromPrivateKey } from '../../../../client/wallet/wallet-from-private-key.ts'

const PROGRAM = fileURLToPath(new URL('key-secret-on-full-disk.ts', import.meta.url))

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'farebox-secret-'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

/** A wallet whose signatures differ each time. */
function unsteadyWallet(privateKey = generatePrivateKey()): Wallet {
  const account = privateKeyToAccount(privateKey)
  let signatures = 0
  return walletFromAccount({
    ...account,
    signMessage: async () => {
      signatures += 1
      return await account.signMessage({ message: `signature ${signatures}` })
    },
  })
}

describe('the secret of idempotency keys', () => {
  it('is the same on every machine for a private key', async () => {
    const wallet = walletFromPrivateKey(generatePrivateKey())
    const [one, other] = [await readKeySecret(wallet, home), await readKeySecret(wallet, null)]
    expect(one.source).toBe('wallet')
    expect(one).toEqual(other)
  })

  it('is drawn once and kept with mode 600 for a wallet whose signatures differ, one for each address', async () => {
    const key = generatePrivateKey()
    const [one, again, other] = await Promise.all([
      readKeySecret(unsteadyWallet(key), home),
      readKeySecret(unsteadyWallet(key), home),
      readKeySecret(unsteadyWallet(), home),
    ])
    expect(one.source).toBe('journal')
    expect(again).toEqual(one)
    expect(other.secret).not.toEqual(one.secret)
    expect((await stat(join(home, 'key-secret'))).mode & 0o777).toBe(0o600)
  })

  it('a secret that could not be written completely leaves nothing behind, so that the next attempt draws it', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, home])
    expect(stdout.trim()).toBe('key_secret_unreadable')
    expect((await readKeySecret(unsteadyWallet(), home)).source).toBe('journal')
  })

  it('a secret that cannot be read is never replaced', async () => {
    await writeFile(join(home, 'key-secret'), 'damaged')
    await expect(readKeySecret(unsteadyWallet(), home)).rejects.toMatchObject({ code: 'key_secret_unreadable' })
    expect(await readFile(join(home, 'key-secret'), 'utf8')).toBe('damaged')
  })
})
