import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, type Hex, maxUint256 } from 'viem'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { proxyCallOf } from '#shared/chain/reading/batched-nonces.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import { newCallRequest } from '../calls/call-requests.ts'
import { reorganize } from '../nemesis/chain-faults.ts'
import { paymentOfProxyCall } from '../stack/pending-batches.ts'
import {
  type Attack,
  type AttackContext,
  from,
  label,
  LONG_MS,
  paidCall,
  sendAttackCall,
  signAttackCall,
  TAKE_LONG,
} from './attack-calls.ts'
import { clientAddress } from './client-address.ts'
import { WALLET_ATTACKS } from './wallet-attacks.ts'

/** Texts that the simulated vendors react to, through the fault rules of {@link VENDOR_RULES}. */
const SAY_NOTHING = 'answer with a blank'
const NEVER_END = 'write until the time is up'

/** Rules under which only the attackers' calls end badly at the vendor. */
export const VENDOR_RULES = [
  { fault: 'emptyText', times: 'always', containing: SAY_NOTHING },
  { fault: 'hang', times: 'always', containing: NEVER_END },
  { fault: 'none', times: 'always', containing: TAKE_LONG, delayMs: LONG_MS },
] as const

/** Covers the maximum of one of these chats. */
const LOAN_ATOMIC = 100_000n
/** The least balance of an owner whose permit is stored; a stranger moves it from wallet to wallet. */
const LEAST_STORED_ATOMIC = 100_000n
const IDLE_UPLOADS = 40
const IDLE_UPLOAD_MS = 8000
const DUPLICATES = 30
const HOUR_OF_AUDIO_MS = 600_000
const SLOW_HOLD_MS = 3000

export const ATTACKS: Readonly<Record<string, Attack>> = {
  'payments of empty wallets': {
    pauseMs: 100,
    attempt: async (context, turn) => {
      const payer = await createPayer(context.rpcUrl, { usdcAtomic: 0n })
      const client = from(context, turn)
      const call = await signAttackCall(context, client, payer)
      if (!call) return 'no challenge'
      const answers: string[] = []
      for (let sent = 0; sent < 5; sent += 1) answers.push(label(await sendAttackCall(context, client, call)))
      return distinct(answers)
    },
  },
  'permits of fresh wallets': {
    pauseMs: 20,
    concurrent: 2,
    attempt: async (context, turn) => {
      const owner = await createPayer(context.rpcUrl, { usdcAtomic: LEAST_STORED_ATOMIC })
      const terms = {
        owner: owner.address,
        spender: DEVNET_ADDRESSES.permit2,
        nonce: 0n,
        deadline: secondsFromNow(3600),
      }
      const signature = await signPermit(owner.account, { ...terms, amount: maxUint256 })
      const { deadline } = terms
      const permit = { owner: owner.address, value: maxUint256.toString(), deadline: deadline.toString(), signature }
      const sent = { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ permit }) }
      const answer = await from(context, turn).request(`${context.baseUrl}/v1/allowances`, sent)
      if (!answer) return 'unanswered'
      const { error } = (await answer.json()) as { error?: { code: string } }
      return error?.code ?? String(answer.status)
    },
  },
  'uploads that never come': {
    pauseMs: 100,
    attempt: async (context, turn) => {
      const payer = await createPayer(context.rpcUrl, { usdcAtomic: 0n })
      const call = await signAttackCall(context, from(context, turn), payer)
      if (!call) return 'no challenge'
      const sockets = Array.from({ length: IDLE_UPLOADS }, (_, index) => {
        const socket = from(context, turn * IDLE_UPLOADS + index).open(context.baseUrl)
        const fields = { ...call.headers, host: new URL(context.baseUrl).host, 'content-length': '26000000' }
        const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}`)
        socket.write(`POST /v1/audio/transcriptions HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n{"model":`)
        return socket
      })
      await delay(IDLE_UPLOAD_MS)
      for (const socket of sockets) socket.destroy()
      return 'held'
    },
  },
  'unpaid keys': {
    pauseMs: 20,
    concurrent: 2,
    attempt: async (context, turn) => {
      const { path, body } = newCallRequest('chat')
      const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
      return String((await from(context, turn).request(`${context.baseUrl}${path}`, { headers, body }))?.status)
    },
  },
  'readiness checks': {
    pauseMs: 20,
    attempt: async (context, turn) =>
      String((await from(context, turn).request(`${context.baseUrl}/readyz`, { method: 'GET' }))?.status),
  },
  'long uploads without payment': {
    pauseMs: 200,
    concurrent: 2,
    attempt: async (context, turn) => {
      const audio = generateMp3({ durationMs: HOUR_OF_AUDIO_MS, seed: randomUUID(), bitrate: 32, mode: 'mono' })
      const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
      const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
      const sent = { headers, body: JSON.stringify(body) }
      const response = await clientAddress(turn % 4).request(`${context.baseUrl}/v1/audio/transcriptions`, sent)
      return String(response?.status)
    },
  },
  'answers ended by a stop sequence': paidBy({ fields: { stop: ['Hello'] } }),
  'answers without content': paidBy({ text: SAY_NOTHING }),
  'answers that outlast the time limit': paidBy({ text: NEVER_END }),
  'images that cannot be fetched': paidBy({
    fields: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'https://127.0.0.1/none.png' } },
          ],
        },
      ],
    },
  }),
  'money moved while the vendor works': {
    pauseMs: 200,
    attempt: (context, turn) =>
      context.wallets.lend(LOAN_ATOMIC, async (wallet) => {
        const call = await paidCall(context, turn, wallet, { text: TAKE_LONG })
        if (!call) return 'no challenge'
        const answered = sendAttackCall(context, from(context, turn), call)
        await delay(LONG_MS / 2)
        await wallet.spendAll()
        const answer = await answered
        // A payer whose result is withheld asks for more.
        const next = await paidCall(context, turn, wallet, {})
        return distinct([
          label(answer),
          next ? label(await sendAttackCall(context, from(context, turn), next)) : 'none',
        ])
      }),
  },
  ...WALLET_ATTACKS,
  'many duplicates of one slow call': {
    pauseMs: 500,
    attempt: (context, turn) =>
      context.wallets.lend(LOAN_ATOMIC, async (wallet) => {
        const call = await paidCall(context, turn, wallet, { text: TAKE_LONG })
        if (!call) return 'no challenge'
        const sent = Array.from({ length: DUPLICATES }, (_, index) =>
          sendAttackCall(context, from(context, turn + index), call, SLOW_HOLD_MS),
        )
        return distinct((await Promise.all(sent)).map(label))
      }),
  },
  'results of others by their payment on chain': { pauseMs: 500, attempt: stealResult },
  reorganizations: {
    pauseMs: 10_000,
    attempt: async ({ stack, rpcUrl }) => {
      stack.reorganizedAt.push(Date.now())
      await reorganize(rpcUrl, 1)
      return 'done'
    },
  },
}

/** Returns an attack that pays honestly for a call of this kind, in the hope that it ends without a charge. */
function paidBy(change: Parameters<typeof signAttackCall>[3]): Attack {
  return {
    pauseMs: 100,
    concurrent: 2,
    attempt: (context, turn) =>
      context.wallets.lend(LOAN_ATOMIC, async (wallet) => {
        const call = await paidCall(context, turn, wallet, change)
        return call ? label(await sendAttackCall(context, from(context, turn), call)) : 'no challenge'
      }),
  }
}

/** Reads an honest payer's signature from the chain and presents it with a challenge of one's own. */
async function stealResult(context: AttackContext, turn: number): Promise<string> {
  const { stack, rpcUrl, baseUrl } = context
  const done = stack.caller.records.filter(
    ({ outcome, path }) => outcome === 'released' && path.endsWith('completions'),
  )
  const victim = done[turn % Math.max(1, done.length)]
  const hash = victim?.answers.at(-1)?.transaction
  if (!victim || !hash) return 'nothing to steal yet'
  const settlement = await callRpc<{ input: Hex } | null>(rpcUrl, 'eth_getTransactionByHash', [hash])
  if (!settlement) return 'removed from the chain'
  const batch = decodeFunctionData({ abi: settlementContractAbi, data: settlement.input })
  if (batch.functionName !== 'settleMany') throw new Error(`${batch.functionName} settled a payment`)
  const calls = batch.args[0].map(({ call }) => proxyCallOf(call))
  const ofVictim = calls.find((call) => paymentOfProxyCall(call).payer === victim.payer.toLowerCase())
  const { args } = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data: ofVictim ?? '0x' })
  const [signature] = (args as readonly unknown[]).slice(-1) as [Hex]
  const { path, body } = newCallRequest('chat', victim.marker)
  const headers = { 'content-type': 'application/json', 'x-idempotency-key': victim.idempotencyKey }
  const challenge = await from(context, turn).request(`${baseUrl}${path}`, { headers, body })
  if (challenge?.status !== 402) return label(null)
  const required = challengeOf(challenge)
  const payer = stack.payers.approved.find(({ address }) => address === victim.payer)
  if (!payer) return 'nothing to steal yet'
  const [permit] = args as unknown as readonly [{ nonce: bigint; deadline: bigint; permitted: { amount: bigint } }]
  // The payer's own key only shapes the message; what is sent is the signature from the chain.
  const payment = await signCustomPayment(required, payer, {
    terms: { nonce: permit.nonce, deadline: permit.deadline, amount: permit.permitted.amount },
  })
  ;(payment['payload'] as { signature: Hex }).signature = signature
  const stolen = await from(context, turn).request(`${baseUrl}${path}`, {
    headers: { ...headers, ...paymentHeader(payment) },
    body,
  })
  return stolen?.status === 200 ? STOLEN : String(stolen?.status)
}

/** The outcome that must never occur. */
export const STOLEN = '200: the result was given away'

function distinct(labels: readonly string[]): string {
  return [...new Set(labels)].sort().join(', ')
}
