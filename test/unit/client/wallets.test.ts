import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, describe, expect, it } from 'vitest'
import { openWallet } from '../../../client/wallet/open-wallet.ts'
import { walletFromEnvironment } from '../../../client/wallet/wallet-from-environment.ts'
import { walletFromAccount, walletFromPrivateKey } from '../../../client/wallet/wallet-from-private-key.ts'

const key = generatePrivateKey()
const secretOf = (privateKey: Hex) => walletFromPrivateKey(privateKey).keySecret()
function errorOf(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}

describe('wallets', () => {
  it('a wallet of a private key has its address, with and without 0x', () => {
    const { address } = privateKeyToAccount(key)
    expect(walletFromPrivateKey(key).address).toBe(address)
    expect(walletFromPrivateKey(`${key.slice(2)}\n`).address).toBe(address)
  })

  it('neither logs nor JSON nor errors show the private key', () => {
    const wallet = walletFromPrivateKey(key)
    const shown = [inspect(wallet, { depth: 9, showHidden: true }), JSON.stringify({ wallet })].join()
    expect(shown.toLowerCase()).not.toContain(key.slice(2))
    expect(
      inspect(
        errorOf(() => walletFromPrivateKey(`${key}00`)),
        { depth: 9, showHidden: true },
      ),
    ).not.toContain(key.slice(2))
  })

  it.each(['', '0x', 'not a key', `0x${'0'.repeat(64)}`, `0x${'f'.repeat(64)}`])('%j is no private key', (text) => {
    expect(() => walletFromPrivateKey(text)).toThrow(expect.objectContaining({ code: 'invalid_private_key' }))
  })

  it('the secret of a private key is the same each time and differs between keys', async () => {
    expect(await secretOf(key)).toEqual(await secretOf(key))
    expect(await secretOf(key)).not.toEqual(await secretOf(generatePrivateKey()))
  })

  it('an account whose signatures repeat has a secret, the same in another process', async () => {
    const secret = await walletFromAccount(privateKeyToAccount(key)).keySecret()
    expect(secret).toHaveLength(32)
    expect(await walletFromAccount(privateKeyToAccount(key)).keySecret()).toEqual(secret)
  })

  it('an account whose signatures differ each time has no secret', async () => {
    let count = 0
    const account = privateKeyToAccount(key)
    const signMessage = async (): Promise<Hex> => `0x${(count++).toString(16).padStart(130, '0')}`
    expect(await walletFromAccount({ ...account, signMessage }).keySecret()).toBeNull()
  })

  it('an account is asked for its secret once, and again after a refusal', async () => {
    const account = privateKeyToAccount(key)
    let asked = 0
    const signMessage: typeof account.signMessage = async (message) => {
      asked += 1
      if (asked === 1) throw new Error('refused')
      return await account.signMessage(message)
    }
    const wallet = walletFromAccount({ ...account, signMessage })
    await expect(wallet.keySecret()).rejects.toThrow('refused')
    await Promise.all([wallet.keySecret(), wallet.keySecret()])
    expect(asked).toBe(3)
  })

  it('an environment without a wallet is refused with what to set', () => {
    expect(() => walletFromEnvironment({})).toThrow(/FAREBOX_PRIVATE_KEY, or FAREBOX_KEY_FILE/)
    expect(walletFromEnvironment({ FAREBOX_PRIVATE_KEY: key }).address).toBe(privateKeyToAccount(key).address)
  })

  describe('a wallet of a module', () => {
    const folder = mkdtempSync(join(tmpdir(), 'farebox-wallet-'))
    afterAll(() => rmSync(folder, { recursive: true }))
    const opened = (name: string, module: string, environment: NodeJS.ProcessEnv = {}) => {
      const path = join(folder, name)
      writeFileSync(path, module)
      return openWallet({ keyFile: undefined, environment: { ...environment, FAREBOX_WALLET_MODULE: path } })
    }
    const address = privateKeyToAccount(key).address
    const account = `{ address: '${address}', signMessage: async () => '0x01', signTypedData: async () => '0x02' }`

    it('is the account of the default export, also of one that takes a while, and comes before a key', async () => {
      const environment = { FAREBOX_PRIVATE_KEY: generatePrivateKey() }
      const wallet = await opened('account.mjs', `export default ${account}`, environment)
      expect([wallet.address, await wallet.signMessage({ message: 'a' })]).toEqual([address, '0x01'])
      expect((await opened('promise.mjs', `export default (async () => (${account}))()`)).address).toBe(address)
    })

    it.each([
      ['another-export', 'export const account = {}', /has no viem account as its default export/],
      ['an-address', `export default { address: '${address}' }`, /has no viem account/],
      ['nothing', 'export default null', /has no viem account/],
      ['a-throw', "throw new Error('no owner')", /cannot be loaded: no owner/],
      ['a-refusal', "export default Promise.reject(new Error('no node'))", /cannot be loaded: no node/],
    ])('is refused with what to write when the module has %s', async (name, module, problem) => {
      const error = await opened(`${name}.mjs`, module).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'no_wallet', advice: expect.stringContaining('export default') })
      expect(String(error)).toMatch(problem)
    })
  })
})
