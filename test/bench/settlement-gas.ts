import { createWalletClient, encodeFunctionData, type Hex, http, parseEventLogs, parseGwei } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/chain/network/base-chain.ts'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { batchGasOf } from '#shared/chain/settlement-contract/batch-call.ts'
import { settlementCall, settlementGas } from '#shared/chain/verification/settlement-call.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { deploySettlementContract } from '../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { createSandboxAccount } from '../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../support/chain/devnet.ts'
import { createPayer } from '../support/payer/payer.ts'
import { secondsFromNow, signAuthorization } from '../support/payer/sign-authorization.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'

const SIZES = [1, 2, 8, 32, 100] as const
const QUICK_SIZES = [1, 2, 32] as const
/** Payments that settle alone; their gas differs by a few hundred, with the zero bytes of their signatures. */
const ALONE = 8
const CHARGE = atomicAmount(2000n)
const LASTING_VALUE = 2n ** 256n - 1n
const LIFETIME_SECONDS = 3600
const GAS_PRICES_GWEI = ['0.005', '0.05', '0.5'] as const
/** The native token in US dollars, for the costs in USDC. */
const NATIVE_TOKEN_USD = 4000
const TARGET_RATIO_32 = 0.75
/** Above the gas limit of the largest batch, whose limit counts every payment's cap. */
const BLOCK_GAS_HEX = '0x5f5e100'
const WEI_PER_NATIVE_TOKEN = 1e18

const KINDS = ['without permit', 'with permit', 'with lasting permit', 'with lasting permit, on chain before'] as const

/**
 * What a payment brings: nothing, a permit of its own maximum, or one for later payments too, which is submitted with the
 * first of them and still attached to some of the others.
 */
type Kind = (typeof KINDS)[number]

interface Measured {
  /** `alone`: a transaction of the key itself, without the contract. */
  readonly way: 'alone' | number
  readonly kind: Kind
  readonly gasEach: number
}

/**
 * Measures the gas that a payment costs: alone, sent by a key as without a settlement contract, and through the contract in
 * batches. Each payment is by another payer, who has paid before and keeps a balance; each uses a nonce in a new word of
 * Permit2's bitmap, as those of clients do, which are random.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const devnet = await startTestDevnet()
  try {
    const gas = await prepare(devnet)
    const measured: Measured[] = []
    for (const kind of KINDS) {
      // A key cannot submit a lasting permit.
      if (!isLasting(kind)) measured.push({ way: 'alone', kind, gasEach: await gas.alone(kind) })
      for (const size of quick ? QUICK_SIZES : SIZES)
        measured.push({ way: size, kind, gasEach: await gas.inBatch(size, kind) })
    }
    return summarize(measured)
  } finally {
    await devnet.stop()
  }
})

async function prepare(devnet: TestDevnet) {
  const { rpcUrl, client, accounts } = devnet
  await callRpc(rpcUrl, 'evm_setBlockGasLimit', [BLOCK_GAS_HEX])
  const owner = createSandboxAccount().address
  const contract = await deploySettlementContract(rpcUrl, { owner, keys: [accounts.settlement.address] })
  const account = privateKeyToAccount(accounts.settlement.privateKey)
  const wallet = createWalletClient({ account, chain: base, transport: http(rpcUrl) })
  const send = async (to: Hex, data: Hex, limit: bigint) => {
    const hash = await wallet.sendTransaction({ to, data, gas: limit })
    const receipt = await client.waitForTransactionReceipt({ hash })
    if (receipt.status !== 'success') throw new Error(`${hash} was reverted`)
    return receipt
  }
  const sign = async (facilitator: Hex, kind: Kind) => {
    const payer = await createPayer(rpcUrl, { approved: kind === 'without permit' || kind.endsWith('before') })
    // Beyond any time that the machine takes to fund the others.
    const deadline = secondsFromNow(LIFETIME_SECONDS)
    const permitAmount = isLasting(kind) ? LASTING_VALUE : undefined
    const changes = { facilitator, gasSponsored: kind !== 'without permit', deadline }
    const authorization = await signAuthorization(devnet, payer, {
      ...changes,
      ...(permitAmount !== undefined && { permitAmount }),
    })
    const submitsPermit = kind === 'with permit'
    const { to, data } = settlementCall(authorization, CHARGE, { submitsPermit })
    return { to, data, gas: settlementGas(authorization, submitsPermit) }
  }
  const alone = async (kind: Kind) => {
    let total = 0n
    for (let index = 0; index < ALONE; index++) {
      const { to, data, gas } = await sign(account.address, kind)
      total += (await send(to, data, gas)).gasUsed
    }
    return Number(total) / ALONE
  }
  const inBatch = async (size: number, kind: Kind) => {
    const settlements: { gas: bigint; call: Hex }[] = []
    while (settlements.length < size) {
      const { data: call, gas } = await sign(contract, kind)
      settlements.push({ gas, call })
    }
    const data = encodeFunctionData({ abi: settlementContractAbi, functionName: 'settleMany', args: [settlements] })
    const receipt = await send(contract, data, batchGasOf(settlements.map(({ gas }) => gas)))
    const settled = parseEventLogs({ abi: settlementContractAbi, eventName: 'PaymentSettled', logs: receipt.logs })
    if (settled.length !== size) throw new Error(`only ${settled.length} of ${size} payments were settled`)
    return Number(receipt.gasUsed) / size
  }
  // The recipient's first payment costs 17,000 more, for its balance.
  await alone('without permit')
  return { alone, inBatch }
}

function summarize(measured: readonly Measured[]): BenchResult {
  const ratioOf = ({ kind, gasEach }: Measured) => {
    const compared: Kind = kind === 'without permit' || kind.endsWith('before') ? 'without permit' : 'with permit'
    const alone = measured.find((other) => other.way === 'alone' && other.kind === compared)
    return gasEach / (alone?.gasEach ?? Number.NaN)
  }
  const rows = measured.map((each) => ({
    payments: each.kind,
    way: each.way === 'alone' ? 'by the key' : `contract, batch of ${each.way}`,
    'gas each': Math.round(each.gasEach),
    '÷ by the key': ratioOf(each).toFixed(3),
    ...Object.fromEntries(GAS_PRICES_GWEI.map((gwei) => [`USDC at ${gwei} gwei`, costUsd(each.gasEach, gwei)])),
  }))
  const [ratio32 = Number.NaN, ratio32WithPermit = Number.NaN, ratio32Lasting = Number.NaN] = measured
    .filter(({ way }) => way === 32)
    .map(ratioOf)
  return {
    rows,
    ratios: [
      atMost(TARGET_RATIO_32, 'ratio32: gas of a payment in a batch of 32 ÷ by the key, without permit', ratio32),
      {
        what: 'ratio32WithPermit: gas of a payment in a batch of 32 ÷ by the key, with permit',
        value: ratio32WithPermit,
      },
      {
        what: 'ratio32Lasting: gas of a first payment with a lasting permit in a batch of 32 ÷ by the key, with permit',
        value: ratio32Lasting,
      },
    ],
    figures: { ratio32, ratio32WithPermit, ratio32Lasting },
    notes: [
      `USDC at ${NATIVE_TOKEN_USD} USD for the native token, without the fee that a rollup charges for data.`,
      'Permit2 runs its canonical code, the settlement contract is the one that is deployed. USDC and the x402 proxy are',
      'stand-ins of ours. The proxy’s guard costs what the published one’s does. The real USDC is itself behind a proxy and',
      'reads a pause flag: several thousand gas more for each first access in a transaction, which a batch pays once.',
    ],
    details: measured,
    limitedBy: 'a ledger entry of the chain for each nonce (22,100 gas) and two signature checks',
  }
}

function isLasting(kind: Kind): boolean {
  return kind.startsWith('with lasting permit')
}

/** Returns the cost in dollars of so much gas at a price. */
function costUsd(gas: number, gwei: (typeof GAS_PRICES_GWEI)[number]): string {
  return ((gas * Number(parseGwei(gwei)) * NATIVE_TOKEN_USD) / WEI_PER_NATIVE_TOKEN).toFixed(6)
}
