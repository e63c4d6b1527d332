import { type Hex, keccak256, type PublicClient } from 'viem'
import { chainClientOf } from '#shared/chain/network/client.ts'
import { MULTICALL3_ADDRESS } from '#shared/chain/network/contracts.ts'
import { openRpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { readCode } from '#shared/chain/verification/payer-code.ts'
import { type SignatureQuestion, traceSignature } from '#shared/chain/verification/signature-trace.ts'
import { KNOWN_CODE, type KnownCode, nameOfCode } from '#shared/payment/known-wallets.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { attempted } from './attempted.ts'
import { type Check, failed, passed, skipped } from './check.ts'

const NAME = 'wallet code'

/** A question that no account takes. */
const NOTHING_SIGNED = { hash: `0x${'0'.repeat(64)}`, signature: `0x${'0'.repeat(130)}` } as const

/**
 * Checks that payers with code can be judged: that the node lists what runs in a signature check, that known wallets have
 * the code that is known, and that no added contract runs what an account's storage names.
 */
export async function checkWalletCode({
  RPC_URL: urls,
  RPC_TIMEOUT_MS: timeoutMs,
  ALLOWED_WALLET_CODE: added,
}: Pick<ApiConfig, 'RPC_URL' | 'RPC_TIMEOUT_MS' | 'ALLOWED_WALLET_CODE'>): Promise<readonly Check[]> {
  if (added === null) return [skipped(NAME, 'no account with code may pay (ALLOWED_WALLET_CODE=none)')]
  const client = chainClientOf(openRpcNodes(urls, timeoutMs))
  return await Promise.all([
    ...urls.map((url) => checkTraces(url, timeoutMs)),
    checkKnown(client),
    ...added.map((address) => checkAdded(client, address)),
  ])
}

function checkTraces(url: string, timeoutMs: number): Promise<Check> {
  const { host } = new URL(url)
  const without = `payers with code get 503 while ${host} serves them. Use another node, or set ALLOWED_WALLET_CODE=none`
  return attempted(
    NAME,
    `${host} does not answer eth_createAccessList for a call of a contract: ${without}`,
    async () => {
      await traceSignature(chainClientOf(openRpcNodes([url], timeoutMs)), {
        payer: MULTICALL3_ADDRESS,
        ...NOTHING_SIGNED,
      })
      return passed(NAME, `${host} lists what runs when a wallet checks a signature`)
    },
  )
}

function checkKnown(client: PublicClient): Promise<Check> {
  return attempted(NAME, 'the code of known wallets cannot be read', async () => {
    const read = await Promise.all(KNOWN_CODE.map((known) => compare(client, known)))
    const wrong = read.filter(({ outcome }) => outcome === 'other')
    if (wrong.length > 0)
      return failed(
        NAME,
        wrong
          .map(
            ({ known, found }) =>
              `${nameOfCode(known.address)} has the code hash ${found} instead of ${known.codeHash}`,
          )
          .join('; '),
      )
    const missing = read.filter(({ outcome }) => outcome === 'missing')
    if (missing.length === 0) return passed(NAME, `${read.length} contracts of known wallets have their published code`)
    return skipped(
      NAME,
      `${missing.length} of ${read.length} contracts of known wallets are not on this chain, so nobody pays with them: ${missing.map(({ known }) => nameOfCode(known.address)).join(', ')}`,
    )
  })
}

async function compare(client: PublicClient, known: KnownCode) {
  const code = await readCode(client, known.address)
  const found = keccak256(code)
  const outcome = code === '0x' ? 'missing' : found === known.codeHash ? 'same' : 'other'
  return { known, found, outcome } as const
}

/**
 * Asks an added contract about a signature, as an account that delegates to it would be asked: code that reads storage
 * first and then asks another contract runs whatever the account's owner writes there.
 */
function checkAdded(client: PublicClient, address: Hex): Promise<Check> {
  const setting = `ALLOWED_WALLET_CODE has ${nameOfCode(address)}`
  return attempted(NAME, `${address} cannot be asked about a signature`, async () => {
    if ((await readCode(client, address)) === '0x') return failed(NAME, `${setting}, which has no code on this chain`)
    const question: SignatureQuestion = { payer: address, ...NOTHING_SIGNED }
    const { readsOwnStorage, accounts } = await traceSignature(client, question)
    const others = accounts.filter((account) => BigInt(account) === 0n || BigInt(account) > LAST_PRECOMPILE)
    if (!readsOwnStorage || others.length === 0)
      return passed(NAME, `${address} asks no contract that an account’s storage names`)
    return failed(
      NAME,
      `${setting}, which reads from an account’s storage what code it runs (here ${others.join(', ')}). Its owner may change that at any time, so payments through it are refused unless that code is listed too. Take it out`,
    )
  })
}

/** RIP-7212. */
const LAST_PRECOMPILE = 0x100n
