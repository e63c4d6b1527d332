type Hex = `0x${string}`

/**
 * Code of wallets that is known to decide about a signature by its input and the state of the chain alone, so that it cannot
 * tell a simulation from a transaction. Each hash is that of the code at the address on Base, derived from what its maker
 * published; `npm run preflight` compares it with the chain. All addresses and hashes are in lower case.
 */
export interface KnownCode {
  readonly maker: string
  readonly name: string
  readonly version: string
  readonly address: Hex
  readonly codeHash: Hex
}

/** The code of a payer's own account, which only forwards to an implementation that has to be known, too. */
export interface KnownProxy extends Omit<KnownCode, 'address'> {}

const SAFE = 'Safe'
const COINBASE = 'Coinbase'

/** Returns the same code at several addresses. */
const copies = (code: Omit<KnownCode, 'address'>, ...addresses: readonly Hex[]): readonly KnownCode[] =>
  addresses.map((address) => ({ ...code, address }))

/**
 * What may run when a payer's wallet checks a signature, and what an account may delegate to (EIP-7702). Sources: the
 * artifacts of @gnosis.pm/safe-contracts 1.3.0, @safe-global/safe-contracts 1.4.1 and @safe-global/safe-smart-account
 * 1.5.0, with the addresses and hashes of @safe-global/safe-deployments 1.37.63.
 */
const SAFE_CODE: readonly KnownCode[] = [
  ...copies(
    {
      maker: SAFE,
      name: 'GnosisSafe',
      version: '1.3.0',
      codeHash: '0xbba688fbdb21ad2bb58bc320638b43d94e7d100f6f3ebaab0a4e4de6304b1c2e',
    },
    '0xd9db270c1b5e3bd161e8c8503c55ceabee709552',
    '0x69f4d1788e39c87893c980c06edf4b7f686e2938',
  ),
  ...copies(
    {
      maker: SAFE,
      name: 'GnosisSafeL2',
      version: '1.3.0',
      codeHash: '0x21842597390c4c6e3c1239e434a682b054bd9548eee5e9b1d6a4482731023c0f',
    },
    '0x3e5c63644e683549055b9be8653de26e0b4cd36e',
    '0xfb1bffc9d739b8d520daf37df666da4c687191ea',
  ),
  ...copies(
    {
      maker: SAFE,
      name: 'CompatibilityFallbackHandler',
      version: '1.3.0',
      codeHash: '0x03e69f7ce809e81687c69b19a7d7cca45b6d551ffdec73d9bb87178476de1abf',
    },
    '0xf48f2b2d2a534e402487b3ee7c18c33aec0fe5e4',
    '0x017062a1de2fe6b99be3d9d37841fed19f573804',
  ),
  {
    maker: SAFE,
    name: 'Safe',
    version: '1.4.1',
    address: '0x41675c099f32341bf84bfc5382af534df5c7461a',
    codeHash: '0x1fe2df852ba3299d6534ef416eefa406e56ced995bca886ab7a553e6d0c5e1c4',
  },
  {
    maker: SAFE,
    name: 'SafeL2',
    version: '1.4.1',
    address: '0x29fcb43b46531bca003ddc8fcb67ffe91900c762',
    codeHash: '0xb1f926978a0f44a2c0ec8fe822418ae969bd8c3f18d61e5103100339894f81ff',
  },
  {
    maker: SAFE,
    name: 'CompatibilityFallbackHandler',
    version: '1.4.1',
    address: '0xfd0732dc9e303f09fcef3a7388ad10a83459ec99',
    codeHash: '0x7c6007a5d711cea8dfd5d91f5940ec29c7f200fe511eb1fc1397b367af3c42f9',
  },
  {
    maker: SAFE,
    name: 'Safe',
    version: '1.5.0',
    address: '0xff51a5898e281db6dfc7855790607438df2ca44b',
    codeHash: '0xdda019cbd7c867a533a2a86e5c53434fdc50b13122b5a5ddb4a8df61b31c20f2',
  },
  {
    maker: SAFE,
    name: 'SafeL2',
    version: '1.5.0',
    address: '0xedd160febbd92e350d4d398fb636302fccd67c7e',
    codeHash: '0x180193227186ccb85316c94db1f0d156ed932b14712cfaac78901899178572dc',
  },
  {
    maker: SAFE,
    name: 'CompatibilityFallbackHandler',
    version: '1.5.0',
    address: '0x3efcbb83a4a7afcb4f68d501e2c2203a38be77f4',
    codeHash: '0x3c6a85bcf7b563daa624b884b4e9a1b9fa5371edde7be945d998071a48f28bbc',
  },
  /* @safe-global/safe-4337 0.3.0 with the entry point 0.7: its creation code has this CREATE2 address and runtime code. */
  {
    maker: SAFE,
    name: 'Safe4337Module',
    version: '0.3.0',
    address: '0x75cf11467937ce3f2f357ce24ffc3dbf8fd5c226',
    codeHash: '0x2aea997c4e3cf0e2f333025372e219abcfde81c21fc2f8fb066414a5685dd3e0',
  },
  /*
   * @safe-global/safe-passkey 0.2.0, in the same way. No package has the creation code of 0.2.1. The verifier that a Safe
   * names beside it runs too: the precompiled one is known, one in Solidity uses more gas than a check may.
   */
  {
    maker: SAFE,
    name: 'SafeWebAuthnSharedSigner',
    version: '0.2.0',
    address: '0xfd90fad33ee8b58f32c00aceead1358e4afc23f9',
    codeHash: '0xd5ebb9058508d32950f30edcdb7fa84dce588a60106a55f4bc9d0ef526b9ab15',
  },
]

export const KNOWN_CODE: readonly KnownCode[] = [
  ...SAFE_CODE,
  /*
   * github.com/coinbase/smart-wallet at 924743b, broadcast/DeployFactory.s.sol/8453/run-latest.json: the creation code has
   * this CREATE2 address and runtime code. Version 1.1 has no published creation code, and
   * compiling its sources gives another address.
   */
  {
    maker: COINBASE,
    name: 'Coinbase Smart Wallet',
    version: '1',
    address: '0x000100abaad02f1cfc8bbe32bd5a564817339e72',
    codeHash: '0x179bcb847d3401ac830789a21cc37ed846fd5da9582a9c9d4b5140b6f26bd1a1',
  },
  /*
   * github.com/MetaMask/delegation-framework at d2811d6, broadcast/DeployEIP7702StatelessDeleGator.s.sol/8453/run-latest.json,
   * in the same way; the address is that of @metamask/delegation-deployments 2.0.0.
   */
  {
    maker: 'MetaMask',
    name: 'EIP7702StatelessDeleGator',
    version: '1.3.0',
    address: '0x63c0c19a282a1b52b07dd5a65b58948a07dae32b',
    codeHash: '0x6af675ac126c441bec5d5013da3331a52e7465fc0d5a662a8708a9f33ce497ba',
  },
  /* @account-abstraction/contracts 0.8.0, in the same way; the address is that of viem 2.57.1. */
  {
    maker: 'eth-infinitism',
    name: 'Simple7702Account',
    version: '0.8.0',
    address: '0xe6cae83bde06e4c305530e199d7217f42808555b',
    codeHash: '0xcc7b633aef4b2543cb8f37522adf1a401f910f0f6b2430c1eecc11f401ccfcf3',
  },
]

/** Proxies of wallets. Sources: the packages of Safe above; Solady's LibClone, which Coinbase's factory uses. */
export const KNOWN_PROXIES: readonly KnownProxy[] = [
  {
    maker: SAFE,
    name: 'GnosisSafeProxy',
    version: '1.3.0',
    codeHash: '0xb89c1b3bdf2cf8827818646bce9a8f6e372885f8c55e5c07acbd307cb133b000',
  },
  {
    maker: SAFE,
    name: 'SafeProxy',
    version: '1.4.1',
    codeHash: '0xd7d408ebcd99b2b70be43e20253d6d92a8ea8fab29bd3be7f55b10032331fb4c',
  },
  {
    maker: SAFE,
    name: 'SafeProxy',
    version: '1.5.0',
    codeHash: '0x4e381985ca68b3e5d27b4425fa581c19cf33146d3f887a3cfca96f55528ea46f',
  },
  {
    maker: COINBASE,
    name: 'ERC1967Proxy of Solady',
    version: '1',
    codeHash: '0xaaa52c8cc8a0e3fd27ce756cc6b4e70c51423e9b597b11f32d3e49f8b1fc890d',
  },
]

/** Code that is refused and whose maker is known, for a sentence that says whose it is. By its address on Base. */
const REFUSED_CODE: Readonly<Record<Hex, string>> = {
  '0x7702cb554e6bfb442cb743a7df23154544a7176c':
    'Coinbase’s EIP-7702 proxy, which runs what the account’s storage names',
}

/** Returns how a sentence names the contract at an address, with its maker where known. */
export function nameOfCode(address: Hex): string {
  const known = KNOWN_CODE.find((code) => code.address === address)
  const name = known ? `${known.maker}’s ${known.name} ${known.version}` : REFUSED_CODE[address]
  return name === undefined ? address : `${address} (${name})`
}
