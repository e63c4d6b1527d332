import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { z } from 'zod'
import { highlight, printField, printProblem, printTitle, wrapText } from '../../terminal.ts'
import type { PayingClient } from '../paying-client.ts'
import type { SandboxInfo } from '../sandbox.ts'
import { dollars } from './dollars.ts'

const transcriptSchema = z.object({ text: z.string(), usage: z.object({ input_audio_ms: z.number() }) })
const receiptSchema = z.object({
  id: z.string(),
  charge_usdc: z.string(),
  transaction: z.string(),
  block_number: z.string(),
  usage: z.object({ input_audio_ms: z.number() }),
})
const balanceSchema = z.object({ result: z.string() })

export interface Audio {
  readonly name: string
  readonly bytes: Buffer
}

/** Shows one paid call by a stranger with USDC, step by step. Returns false when the service rejects the file. */
export async function showPaidTranscription(info: SandboxInfo, client: PayingClient, audio: Audio): Promise<boolean> {
  const call = transcriptionCall(info.baseUrl, audio)
  const before = await usdcBalance(info, client.address)

  printTitle('1  Send the request without a payment')
  printField('file', `${audio.name}, ${audio.bytes.length.toLocaleString('en')} bytes`)
  const challenge = await call({})
  if (challenge.status !== 402) {
    printProblem(`  ${challenge.status} ${await challenge.text()}`)
    return false
  }
  showTerms(challenge)

  printTitle('2  Sign the price and send the request again')
  const payment = await client.sign(challenge)
  printField('payer', `${client.address} (no account, no gas)`)
  const startedAt = performance.now()
  const paid = await call(payment)
  if (paid.status !== 200) throw new Error(`${paid.status} ${await paid.text()}`)
  const body = await paid.text()
  showResult(paid, body, performance.now() - startedAt)

  printTitle('3  Check the charge and the receipt')
  await showCharge(info, client, paid, before)

  printTitle('4  Send the same request once more')
  const replay = await call(payment)
  const isSame =
    (await replay.text()) === body && replay.headers.get('x-receipt-id') === paid.headers.get('x-receipt-id')
  const isFree = (await usdcBalance(info, client.address)) === before - chargedAmount(paid)
  printField('answer', isSame ? 'the same bytes with the same receipt' : 'DIFFERENT')
  printField('charged', isFree ? 'nothing' : 'AGAIN')
  if (!isSame || !isFree) throw new Error('the replay was not free')
  return true
}

/** Returns a function that sends the identical request each time, with or without a payment header. */
function transcriptionCall(baseUrl: string, audio: Audio) {
  const idempotencyKey = randomUUID()
  return (payment: Record<string, string>) => {
    const form = new FormData()
    form.set('model', 'speechvendor/scribe-v2')
    form.set('file', new Blob([new Uint8Array(audio.bytes)], { type: 'audio/mpeg' }), audio.name)
    return fetch(`${baseUrl}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { 'x-idempotency-key': idempotencyKey, ...payment },
      body: form,
    })
  }
}

function showTerms(challenge: Response): void {
  const required = decodePaymentRequiredHeader(challenge.headers.get('payment-required') ?? '')
  const [terms] = required.accepts
  if (!terms) throw new Error('the challenge offers no terms')
  printField('answer', '402 Payment Required')
  printField('maximum', highlight(`${dollars(BigInt(terms.amount))} USDC`))
  printField('recipient', terms.payTo)
  printField('terms', `x402 v${required.x402Version}, scheme ${terms.scheme}, network ${terms.network}`)
  printField('valid until', String(terms.extra['expiresAt']))
}

function showResult(paid: Response, body: string, milliseconds: number): void {
  const { text, usage } = transcriptSchema.parse(JSON.parse(body))
  printField(
    'answer',
    `${paid.status} after ${(milliseconds / 1000).toFixed(2)} s, ${seconds(usage.input_audio_ms)} of audio`,
  )
  printField('transcript', ...wrapText(text).map(highlight))
}

async function showCharge(info: SandboxInfo, client: PayingClient, paid: Response, before: bigint): Promise<void> {
  const payment = decodePaymentResponseHeader(paid.headers.get('payment-response') ?? '')
  const after = await usdcBalance(info, client.address)
  const receipt = await fetchReceipt(info.baseUrl, paid)
  printField('charged', highlight(`${receipt.charge_usdc} USDC for ${seconds(receipt.usage.input_audio_ms)}`))
  printField('balance', `${dollars(before)} → ${dollars(after)} USDC`)
  printField('transaction', payment.transaction, `in block ${receipt.block_number}; the service paid the gas`)
  printField('receipt', receipt.id, 'fetched back with its token')
  if (before - after !== chargedAmount(paid)) throw new Error('the balance did not change by the charge')
}

async function fetchReceipt(baseUrl: string, paid: Response) {
  const answer = await fetch(`${baseUrl}/v1/receipts/${paid.headers.get('x-receipt-id')}`, {
    headers: { authorization: `Bearer ${paid.headers.get('x-receipt-token')}` },
  })
  if (answer.status !== 200) throw new Error(`the receipt cannot be fetched: ${answer.status}`)
  return receiptSchema.parse(await answer.json())
}

function chargedAmount(paid: Response): bigint {
  return BigInt(decodePaymentResponseHeader(paid.headers.get('payment-response') ?? '').amount ?? '0')
}

/** Reads `balanceOf` with a plain RPC call, so that the figure does not depend on farebox. */
async function usdcBalance({ rpcUrl, usdc }: SandboxInfo, address: string): Promise<bigint> {
  const data = `0x70a08231${address.slice(2).padStart(64, '0')}`
  const answer = await fetch(rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_call', params: [{ to: usdc, data }, 'latest'] }),
  })
  return BigInt(balanceSchema.parse(await answer.json()).result)
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
