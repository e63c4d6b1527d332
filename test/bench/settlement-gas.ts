import { createWalletClient, encodeFunctionData, type Hex, http, parseEventLogs, parseGwei } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { base } from '#shared/adapters/chain/network/base-chain.ts'
import { batchSettlementAbi } from '#shared/adapters/chain/network/contracts.ts'
import {
  SETTLE_GAS,
  SETTLE_WITH_PERMIT_GAS,
  settlementCall,
} from '#shared/adapters/chain/verification/settlement-call.ts'
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
const LIFETIME_SECONDS = 3600
const GAS_PRICES_GWEI = ['0.005', '0.05', '0.5'] as const
/** The native token in US dollars, for the costs in USDC. */
const NATIVE_TOKEN_USD = 4000
const TARGET_RATIO_32 = 0.75
/** Above the gas limit of the largest batch, whose limit counts every payment's cap. */
const BLOCK_GAS_HEX = '0x5f5e100'
const WEI_PER_NATIVE_TOKEN = 1e18

interface Measured {
  /** `alone`: a transaction of the key itself, without the contract. */
  readonly way: 'alone' | number
  readonly withPermit: boolean
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
    for (const withPermit of [false, true]) {
      measured.push({ way: 'alone', withPermit, gasEach: await gas.alone(withPermit) })
      for (const size of quick ? QUICK_SIZES : SIZES)
        measured.push({ way: size, withPermit, gasEach: await gas.inBatch(size, withPermit) })
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
  const sign = async (facilitator: Hex, withPermit: boolean) => {
    const payer = await createPayer(rpcUrl, { approved: !withPermit })
    // Beyond any time that the machine takes to fund the others.
    const deadline = secondsFromNow(LIFETIME_SECONDS)
    const changes = { facilitator, gasSponsored: withPermit, deadline }
    return settlementCall(await signAuthorization(devnet, payer, changes), CHARGE, { submitsPermit: withPermit })
  }
  const alone = async (withPermit: boolean) => {
    let total = 0n
    for (let index = 0; index < ALONE; index++) {
      const { to, data } = await sign(account.address, withPermit)
      total += (await send(to, data, withPermit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS)).gasUsed
    }
    return Number(total) / ALONE
  }
  const inBatch = async (size: number, withPermit: boolean) => {
    const cap = withPermit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS
    const settlements: { gas: bigint; call: Hex }[] = []
    while (settlements.length < size) settlements.push({ gas: cap, call: (await sign(contract, withPermit)).data })
    const data = encodeFunctionData({ abi: batchSettlementAbi, functionName: 'settleMany', args: [settlements] })
    const receipt = await send(contract, data, BigInt(size) * (cap + 20_000n) + 100_000n)
    const settled = parseEventLogs({ abi: batchSettlementAbi, eventName: 'PaymentSettled', logs: receipt.logs })
    if (settled.length !== size) throw new Error(`only ${settled.length} of ${size} payments were settled`)
    return Number(receipt.gasUsed) / size
  }
  // The recipient's first payment costs 17,000 more, for its balance.
  await alone(false)
  return { alone, inBatch }
}

function summarize(measured: readonly Measured[]): BenchResult {
  const ratioOf = ({ way, withPermit, gasEach }: Measured) => {
    const alone = measured.find((other) => other.way === 'alone' && other.withPermit === withPermit)
    return { way, withPermit, value: gasEach / (alone?.gasEach ?? Number.NaN) }
  }
  const rows = measured.map((each) => ({
    payments: each.withPermit ? 'with permit' : 'without permit',
    way: each.way === 'alone' ? 'by the key' : `contract, batch of ${each.way}`,
    'gas each': Math.round(each.gasEach),
    '÷ by the key': ratioOf(each).value.toFixed(3),
    ...Object.fromEntries(GAS_PRICES_GWEI.map((gwei) => [`USDC at ${gwei} gwei`, costUsd(each.gasEach, gwei)])),
  }))
  const [ratio32 = Number.NaN, ratio32WithPermit = Number.NaN] = measured
    .filter(({ way }) => way === 32)
    .map((each) => ratioOf(each).value)
  return {
    rows,
    ratios: [
      atMost(TARGET_RATIO_32, 'ratio32: gas of a payment in a batch of 32 ÷ by the key, without permit', ratio32),
      {
        what: 'ratio32WithPermit: gas of a payment in a batch of 32 ÷ by the key, with permit',
        value: ratio32WithPermit,
      },
    ],
    figures: { ratio32, ratio32WithPermit },
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

/** Returns the cost in dollars of so much gas at a price. */
function costUsd(gas: number, gwei: (typeof GAS_PRICES_GWEI)[number]): string {
  return ((gas * Number(parseGwei(gwei)) * NATIVE_TOKEN_USD) / WEI_PER_NATIVE_TOKEN).toFixed(6)
}
