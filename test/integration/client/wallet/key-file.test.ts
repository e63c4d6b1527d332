import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { walletFromEnvironment } from '../../../../client/wallet/wallet-from-environment.ts'

const key = generatePrivateKey()
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-key-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe('the key file', () => {
  it('a key file that others may read is refused with the command that repairs it', async () => {
    const file = join(directory, 'key')
    await writeFile(file, `${key}\n`)
    await chmod(file, 0o640)
    expect(() => walletFromEnvironment({ FAREBOX_KEY_FILE: file })).toThrow(`Run: chmod 600 ${file}`)
    await chmod(file, 0o600)
    expect(walletFromEnvironment({ FAREBOX_KEY_FILE: file }).address).toBe(privateKeyToAccount(key).address)
  })

  it('a key file that is missing is named', () => {
    expect(() => walletFromEnvironment({ FAREBOX_KEY_FILE: join(directory, 'none') })).toThrow(/cannot be read/)
  })
})
