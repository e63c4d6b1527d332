import { formatGwei, hashDomain, keccak256, type PublicClient, parseAbi } from 'viem'
import { GAS_WARNING_SETTLEMENTS, LOWEST_BASE_FEE_WEI, maximumFeePerGasWei } from '#shared/catalog/fee-limit.ts'
import { chainClientOf } from '#shared/chain/network/client.ts'
import {
  CHAIN_ID,
  MULTICALL3_ADDRESS,
  PERMIT2_ADDRESS,
  UPTO_PROXY_ADDRESS,
  USDC_ADDRESS,
} from '#shared/chain/network/contracts.ts'
import { openRpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { missingContract } from '#shared/chain/settlement-contract/require-contract.ts'
import { createFeeEstimator, exceedMaximum } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { settlementKeys } from '#shared/chain/signing/settlement-keys.ts'
import { readCode } from '#shared/chain/verification/payer-code.ts'
import type { ApiConfig } from '../../../api/config.ts'
import type { WorkerConfig } from '../../../workers/config.ts'
import { attempted } from './attempted.ts'
import { type Check, failed, judged, passed, skipped } from './check.ts'

interface PublishedContract {
  readonly name: string
  readonly address: `0x${string}`
  /** keccak-256 of the running code on eip155:8453, in lower case. */
  readonly codeHash: string
}

/**
 * The contracts that never change. USDC is not among them: its issuer may replace its code.
 *
 * The hash of Permit2 is computed from its code with chain id and domain separator of Base
 * (test/contract/documents.test.ts); the proxy has no values of its own chain, and its hash is the one that others
 * have published for Base Sepolia.
 */
export const PUBLISHED_CONTRACTS: readonly PublishedContract[] = [
  {
    name: 'Permit2',
    address: PERMIT2_ADDRESS,
    codeHash: '0xa67739abc3ede9dbdc0491636c67d6a14ac07fab9030c3f509b1eb7b11dff8ed',
  },
  {
    name: 'the x402 upto proxy',
    address: UPTO_PROXY_ADDRESS,
    codeHash: '0x4662dc27323421a3698be49ac95f7b0dba141c238d31ef543248d1a11f8d8eec',
  },
  {
    name: 'Multicall3',
    address: MULTICALL3_ADDRESS,
    codeHash: '0xd5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891',
  },
]

/** Blocks of Base are 2 s apart; a machine or node this far off checks deadlines wrongly. */
const LARGEST_SKEW_MS = 60_000

const assetAbi = parseAbi([
  'function symbol() view returns (string)',
  'function decimals() view returns (uint8)',
  'function DOMAIN_SEPARATOR() view returns (bytes32)',
])

/** Checks every node of `RPC_URL`, then the contracts and the settlement keys through them. */
export async function checkChain(
  { RPC_URL: urls, RPC_TIMEOUT_MS: timeoutMs }: Pick<ApiConfig, 'RPC_URL' | 'RPC_TIMEOUT_MS'>,
  worker: WorkerConfig | null,
  expectedCode: ReadonlyMap<string, string>,
): Promise<readonly Check[]> {
  const nodes = await Promise.all(urls.map((url) => checkNode(url, timeoutMs)))
  const client = chainClientOf(openRpcNodes(urls, timeoutMs))
  const contracts = await Promise.all(
    PUBLISHED_CONTRACTS.map((contract) => checkContract(client, contract, expectedCode)),
  )
  return [...nodes, ...contracts, await checkAsset(client), ...(worker ? await checkGas(client, worker) : [])]
}

/** Checks that calls are accepted at the network's fees now, and at its lowest ones. */
export function checkFees(config: ApiConfig): Promise<Check> {
  const client = chainClientOf(openRpcNodes(config.RPC_URL, config.RPC_TIMEOUT_MS))
  return attempted('network fees', 'they cannot be read', async () => {
    const { baseFeePerGas: now } = await createFeeEstimator(client)()
    const baseFeePerGas = now > LOWEST_BASE_FEE_WEI ? now : LOWEST_BASE_FEE_WEI
    const maxFeePerGas = maximumFeePerGasWei(config)
    const maximum = `${formatGwei(maxFeePerGas)} gwei`
    if (!exceedMaximum({ baseFeePerGas, maxFeePerGas }))
      return passed('network fees', `the base fee is ${formatGwei(now)} gwei, settlements offer at most ${maximum}`)
    const cause =
      config.MAXIMUM_FEE_PER_GAS_WEI === undefined
        ? `follows from NATIVE_TOKEN_USD=${config.NATIVE_TOKEN_USD}; to accept calls whose gas costs more than twice their charge, set MAXIMUM_FEE_PER_GAS_WEI`
        : 'is MAXIMUM_FEE_PER_GAS_WEI'
    return failed(
      'network fees',
      `every call is refused at a base fee of ${formatGwei(baseFeePerGas)} gwei (Base's lowest is ${formatGwei(LOWEST_BASE_FEE_WEI)}), which with room for a rise by a quarter exceeds the maximum of ${maximum}; that ${cause}`,
    )
  })
}

/** Checks that whoever is paid can pay out: revenue of a contract that cannot is lost. */
export function checkRecipients({ PAY_TO: recipients, ...config }: ApiConfig): Promise<readonly Check[]> {
  const client = chainClientOf(openRpcNodes(config.RPC_URL, config.RPC_TIMEOUT_MS))
  const published = new Map(
    [...PUBLISHED_CONTRACTS, { name: 'USDC', address: USDC_ADDRESS }].map(({ name, address }) => [
      address.toLowerCase(),
      name,
    ]),
  )
  return Promise.all(
    recipients.map((recipient) =>
      attempted('recipient', `the code of ${recipient} cannot be read`, async () => {
        const name = published.get(recipient.toLowerCase())
        if (name !== undefined) return failed('recipient', `PAY_TO is ${name}, which never pays out what it receives`)
        if ((await readCode(client, recipient)) === '0x') return passed('recipient', `${recipient} is an account`)
        return skipped('recipient', `PAY_TO ${recipient} is a contract: be sure that it can pay out USDC`)
      }),
    ),
  )
}

function checkNode(url: string, timeoutMs: number): Promise<Check> {
  const { host } = new URL(url)
  return attempted('node', `${host} does not answer`, async () => {
    const nodes = openRpcNodes([url], timeoutMs)
    await nodes.refuseOtherChains(CHAIN_ID)
    const { number, timestamp } = await chainClientOf(nodes).getBlock()
    const ageMs = Date.now() - Number(timestamp) * 1000
    if (Math.abs(ageMs) > LARGEST_SKEW_MS)
      return failed(
        'node',
        `${host}: its latest block is ${Math.round(ageMs / 1000)} s old by this machine's clock; the node is behind or the clock is wrong`,
      )
    return passed('node', `${host} serves chain ${CHAIN_ID}, block ${number}`)
  })
}

function checkContract(
  client: PublicClient,
  { name, address, codeHash }: PublishedContract,
  expectedCode: ReadonlyMap<string, string>,
): Promise<Check> {
  return attempted('contract', `${name} cannot be read`, async () => {
    const code = await readCode(client, address)
    if (code === '0x') return failed('contract', missingContract(name, address))
    const found = keccak256(code)
    const expected = expectedCode.get(address.toLowerCase()) ?? codeHash
    if (found === expected) return passed('contract', `${name} at ${address}`)
    return failed(
      'contract',
      `${name} at ${address} has the code hash ${found} instead of ${expected}. Payments would go through code that nobody has reviewed here.`,
    )
  })
}

/** USDC can be upgraded by its issuer, so its behavior is checked instead of its code. */
function checkAsset(client: PublicClient): Promise<Check> {
  return attempted('asset', 'USDC cannot be read', async () => {
    const asset = { address: USDC_ADDRESS, abi: assetAbi } as const
    const [symbol, decimals, domain] = await Promise.all([
      client.readContract({ ...asset, functionName: 'symbol' }),
      client.readContract({ ...asset, functionName: 'decimals' }),
      client.readContract({ ...asset, functionName: 'DOMAIN_SEPARATOR' }),
    ])
    const problems = [
      ...(symbol === 'USDC' ? [] : [`its symbol is ${symbol}`]),
      ...(decimals === 6 ? [] : [`it has ${decimals} decimals`]),
      ...(domain === PERMIT_DOMAIN ? [] : ['permits are signed for another domain than its own']),
    ]
    return judged('asset', problems, `USDC at ${USDC_ADDRESS}`)
  })
}

/** The domain for which payers sign gas-sponsoring permits. */
const PERMIT_DOMAIN = hashDomain({
  domain: { name: 'USD Coin', version: '2', chainId: BigInt(CHAIN_ID), verifyingContract: USDC_ADDRESS },
  types: {
    EIP712Domain: [
      { name: 'name', type: 'string' },
      { name: 'version', type: 'string' },
      { name: 'chainId', type: 'uint256' },
      { name: 'verifyingContract', type: 'address' },
    ],
  },
})

function checkGas(client: PublicClient, config: WorkerConfig): Promise<readonly Check[]> {
  const { SETTLEMENT_PRIVATE_KEYS: keys = [] } = config
  const gas = createGasReader(client, createFeeEstimator(client, maximumFeePerGasWei(config)))
  return Promise.all(
    settlementKeys(keys).facilitators.map((address) =>
      attempted('gas', `the balance of ${address} cannot be read`, async () => {
        const { settlementsLeft } = await gas.readGas(address)
        const problems =
          settlementsLeft < GAS_WARNING_SETTLEMENTS
            ? [`${address} has gas for ${settlementsLeft} settlements; fund it`]
            : []
        return judged('gas', problems, `${address} has gas for ${settlementsLeft} settlements`)
      }),
    ),
  )
}
