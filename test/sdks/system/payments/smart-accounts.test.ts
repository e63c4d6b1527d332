import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { toSafeSmartAccount } from 'permissionless/accounts'
import { concat, createPublicClient, type Hex, http, pad, toHex } from 'viem'
import { entryPoint07Address, type SmartAccount, toWebAuthnAccount } from 'viem/account-abstraction'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { base } from 'viem/chains'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeCommandBench } from '../../../support/client/command-bench.ts'
import { startLocalServer } from '../../../support/mcp/local-server.ts'
import { mintInTurn, type PayerAccount, payerCalls, sendAs } from '../../../support/payer/payer.ts'
import { ROOT } from '../../../support/processes/client-package.ts'
import { startTestSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../../support/processes/test-sandbox.ts'
import { createAuthenticator, SITE } from '../../../support/wallets/authenticator.ts'
import { PRECOMPILED_ONLY } from '../../../support/wallets/passkey-safe.ts'
import { payAsWallet, transfersOf } from '../../../support/wallets/pay-as-wallet.ts'
import { bytecodeOf, PASSKEY_SIGNER, placePublished, SAFE_CONTRACTS } from '../../../support/wallets/published-code.ts'

const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url))
const { resolve } = createRequire(import.meta.url)
const artifactOf = (contract: string) =>
  `@safe-global/safe-4337/build/artifacts/contracts/${contract}.sol/${contract}.json`
/** Where permissionless 0.4.1 looks for what it calls while it creates a Safe 1.4.1. */
const SETUP_CONTRACTS = [
  SAFE_CONTRACTS['1.4.1'].singleton,
  SAFE_CONTRACTS['1.4.1'].factory,
  PASSKEY_SIGNER,
  {
    address: '0x75cf11467937ce3F2f357CE24ffc3DBF8fD5c226',
    creationCode: async () =>
      concat([await bytecodeOf(artifactOf('Safe4337Module'), resolve), pad(entryPoint07Address)]),
  },
  {
    address: '0x2dd68b007B46fBe91B9A7c3EDa5A7a1063cB5b47',
    creationCode: () => bytecodeOf(artifactOf('SafeModuleSetup'), resolve),
  },
  {
    address: '0x38869bf66a61cF6bDB996A6aE40D5853Fd43B526',
    creationCode: () =>
      bytecodeOf('@safe-global/safe-contracts/build/artifacts/contracts/libraries/MultiSend.sol/MultiSend.json'),
  },
] as const

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({ apiEnvironment: WITHOUT_BUDGETS, workerEnvironment: WITHOUT_BUDGETS })
  await placePublished(sandbox.info.rpcUrl, ...SETUP_CONTRACTS)
})
afterAll(() => sandbox.stop())

const clientOf = () => createPublicClient({ chain: base, transport: http(sandbox.info.rpcUrl) })

/** Deploys a Safe by its own factory call, and gives it USDC and an allowance. */
async function deploy(account: SmartAccount) {
  const { rpcUrl } = sandbox.info
  const { factory, factoryData } = await account.getFactoryArgs()
  if (!factory || !factoryData) throw new Error('it is deployed already')
  const sender = privateKeyToAccount(generatePrivateKey()).address
  await sendAs({ address: sender, rpcUrl }, { to: factory, data: factoryData })
  const address = account.address.toLowerCase() as Hex
  await mintInTurn(rpcUrl, address, 10_000_000n)
  await sendAs({ address, rpcUrl }, payerCalls.approve(10_000_000n))
  // Its types are those of another copy of viem.
  return { address, account: account as unknown as PayerAccount }
}

it('a Safe of permissionless pays through the official client as it is', async () => {
  const owners = [privateKeyToAccount(generatePrivateKey())] as const
  const account = await toSafeSmartAccount({ client: clientOf(), owners: [...owners], version: '1.4.1' })
  await payAsWallet(sandbox, await deploy(account), 12)
})

it('a Safe of permissionless with a passkey pays where the chain checks it', async () => {
  const account = await passkeyAccount(toHex(PRECOMPILED_ONLY))
  await payAsWallet(sandbox, await deploy(account), 12)
})

it('the module of the client’s README pays as farebox transcribe and as farebox mcp', async () => {
  const page = await readFile(join(ROOT, 'client/README.md'), 'utf8')
  const section = page.slice(page.indexOf('\n### A wallet with code\n'))
  const [, module = ''] = /```js\n([^]*?)```/.exec(section) ?? []
  const folder = await mkdtemp(join(tmpdir(), 'farebox-wallet-'))
  const bench = await makeCommandBench(sandbox)
  try {
    await symlink(PACKAGES, join(folder, 'node_modules'))
    const path = join(folder, 'wallet.mjs')
    await writeFile(path, module)
    const owner = generatePrivateKey()
    const owners = [privateKeyToAccount(owner)] as const
    const account = await toSafeSmartAccount({ client: clientOf(), owners: [...owners], version: '1.4.1' })
    const wallet = await deploy(account)
    const environment = { FAREBOX_WALLET_MODULE: path, OWNER_KEY: owner }
    await bench.record('a.mp3', 'b.mp3')
    const { code, err } = await bench.run(['transcribe', '--yes', '.'], { environment })
    expect([code, err]).toEqual([0, expect.any(String)])
    expect(await transfersOf(sandbox, wallet)).toHaveLength(2)
    const { baseUrl, rpcUrl } = sandbox.info
    const server = await startLocalServer({ baseUrl, rpcUrl, home: join(folder, 'home') }, { environment })
    try {
      const prompt = { model: 'textmodel-2.5-flash', prompt: 'Good evening.', max_tokens: 50 }
      expect(await server.call('chat', prompt)).not.toMatchObject({ isError: true })
    } finally {
      await server.close()
    }
    expect(await transfersOf(sandbox, wallet)).toHaveLength(3)
  } finally {
    await bench.remove()
    await rm(folder, { recursive: true })
  }
})

/** Returns a Safe of a passkey, whose signatures are checked by what `verifiers` names. */
async function passkeyAccount(verifiers: Hex) {
  const passkey = createAuthenticator()
  const { publicKey } = passkey
  const owner = toWebAuthnAccount({
    credential: {
      id: 'passkey',
      publicKey: concat([toHex(publicKey.x, { size: 32 }), toHex(publicKey.y, { size: 32 })]),
    },
    rpId: SITE,
    getFn: (options) => {
      const challenge = options?.publicKey?.challenge as Uint8Array
      const { authenticatorData, clientDataJson, signature } = passkey.assert(toHex(new Uint8Array(challenge)))
      const response = { authenticatorData, clientDataJSON: Buffer.from(clientDataJson), signature }
      return Promise.resolve({ id: 'passkey', type: 'public-key', response } as never)
    },
  })
  return await toSafeSmartAccount({
    client: clientOf(),
    owners: [owner],
    version: '1.4.1',
    safeWebAuthnSharedSignerAddress: PASSKEY_SIGNER.address,
    // Two bytes for the precompiled contract stand before the address.
    safeP256VerifierAddress: verifiers,
  })
}
