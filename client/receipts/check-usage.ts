import { walkFrames } from '../../packages/mp3/walk-frames.ts'
import type { PaidCall } from '../payment/paid-call.ts'
import type { Receipt } from '../wire/schemas.ts'
import { judge, type ReceiptCheck, skip } from './receipt-check.ts'

/** What was sent for a receipt. */
export type SentCall = Pick<PaidCall, 'headers' | 'body' | 'audioMs'>

/** The service's allowances for what chat templates and vendors add: a request's own, its tools', and its format's. */
const TOKENS_PER_REQUEST = 256 + 1024 + 256
/** For the markup of a message, of its first part, and of a tool, beyond the bytes of their JSON. */
const TOKENS_PER_ITEM = 64
/** The most that any image costs: 24 tiles of 258 tokens. */
const TOKENS_PER_IMAGE = 24 * 258

/**
 * Holds the usage that a receipt charges for against what was sent: input tokens are at most its bytes, which no
 * tokenizer exceeds, with what the service allows for markup and images; characters and milliseconds of audio are those
 * that the client counts itself.
 */
export async function checkUsage(receipt: Receipt, call: SentCall): Promise<ReceiptCheck> {
  const { usage } = receipt
  try {
    if ('input_tokens' in usage) return await judgeTokens(receipt, await call.body())
    if ('input_characters' in usage) {
      const { input } = JSON.parse(await textOf(await call.body())) as { readonly input?: unknown }
      if (typeof input !== 'string') return skip('usage', 'the request has no text')
      return judgeEqual('characters', Array.from(input).length, usage['input_characters'])
    }
    if ('input_audio_ms' in usage) {
      const milliseconds = call.audioMs ?? (await measureAudio(call))
      if (milliseconds === null) return skip('usage', 'the recording cannot be measured here')
      return judgeEqual('milliseconds of audio', milliseconds, usage['input_audio_ms'])
    }
    return skip('usage', 'it counts nothing that was sent')
  } catch {
    // A body that cannot be read again, such as that of a file that has changed.
    return skip('usage', 'what was sent is not at hand')
  }
}

function judgeEqual(unit: string, counted: number, charged: number | undefined): ReceiptCheck {
  const problems = counted === charged ? [] : [`it counts ${charged} ${unit}, and ${counted} were sent`]
  return judge('usage', problems, `${counted} ${unit}, as counted here`)
}

async function judgeTokens(receipt: Receipt, sent: Awaited<ReturnType<PaidCall['body']>>): Promise<ReceiptCheck> {
  const text = await textOf(sent)
  const most = mostInputTokens(text)
  const charged = chargedInput(receipt)
  const problems = charged > most ? [`it charges ${charged} input tokens, and what was sent has at most ${most}`] : []
  return judge('usage', problems, `${charged} input tokens, of at most ${most} that were sent`)
}

/** Returns the input tokens that are charged: a vendor may count more than the quote proved. */
function chargedInput({ usage, calculation }: Receipt): number {
  const lines = (calculation?.lines ?? []).filter(
    ({ unit, usage: name }) => unit === 'token' && name !== 'output_tokens',
  )
  if (lines.length === 0) return usage['input_tokens'] ?? 0
  return lines.reduce((sum, { quantity }) => sum + Number(quantity), 0)
}

/** Returns the most input tokens that the JSON of a text request can have. Throws where it is none. */
export function mostInputTokens(json: string): number {
  const request: unknown = JSON.parse(json)
  const { messages, tools, functions } = request as Readonly<Record<string, unknown>>
  const items = [messages, tools, functions].reduce<number>(
    (sum, list) => sum + (Array.isArray(list) ? list.length : 0),
    0,
  )
  return (
    longestRendering(json) + TOKENS_PER_REQUEST + items * TOKENS_PER_ITEM + countImages(messages) * TOKENS_PER_IMAGE
  )
}

/**
 * Counts the bytes of JSON when every character beyond ASCII is written as `\uXXXX` and a space follows every comma and
 * colon, as some chat templates write schemas, arguments and results.
 */
function longestRendering(json: string): number {
  let bytes = 0
  for (let at = 0; at < json.length; at += 1) {
    const unit = json.charCodeAt(at)
    if (unit > 0x7f) bytes += 6
    else bytes += unit === 0x2c || unit === 0x3a ? 2 : 1
  }
  return bytes
}

function countImages(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const isImage = 'type' in value && (value.type === 'image' || value.type === 'image_url')
  return Object.values(value).reduce<number>((sum, member) => sum + countImages(member), isImage ? 1 : 0)
}

async function textOf(body: Awaited<ReturnType<PaidCall['body']>>): Promise<string> {
  return typeof body === 'string' ? body : await new Response(body).text()
}

/** Measures the recording of a JSON or form request; `null` for one that is no MP3. */
async function measureAudio({ headers, body }: SentCall): Promise<number | null> {
  const contentType = new Headers({ ...headers }).get('content-type') ?? ''
  const request = new Response(await body(), { headers: { 'content-type': contentType } })
  const walk = walkFrames(contentType.includes('json') ? await base64In(request) : await fileIn(request))
  return walk.outcome === 'mp3' ? walk.durationMs : null
}

async function base64In(request: Response): Promise<Uint8Array> {
  const { audio_base64: base64 } = (await request.json()) as { readonly audio_base64: string }
  return Buffer.from(base64, 'base64')
}

async function fileIn(request: Response): Promise<Uint8Array> {
  const file = (await request.formData()).get('file')
  if (!(file instanceof Blob)) throw new TypeError('the form has no file')
  return new Uint8Array(await file.arrayBuffer())
}
