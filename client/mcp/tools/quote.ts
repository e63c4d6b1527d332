import * as z from 'zod'
import type { Farebox, QuoteRequest } from '../../farebox.ts'
import { DEFAULT_TRANSCRIPTION_MODEL } from '../../payment/operations.ts'
import { chatRequest, imageRequest, speechRequest } from '../../requests/text-requests.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { modelName, safeName } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'
import * as given from './arguments.ts'
import { chooseModel, requireVoice } from './text-call.ts'

const LONGEST_RECORDING_SECONDS = 3600

const inputSchema = z.strictObject({
  tool: z.enum(['chat', 'generate_image', 'speak', 'transcribe']).describe('The tool whose call is priced.'),
  text: given.prompt.optional().describe('The prompt, or the text to speak.'),
  duration_seconds: z
    .number()
    .positive()
    .max(LONGEST_RECORDING_SECONDS)
    .optional()
    .describe('For transcribe: how long the recording is. Longer ones are the sum of their hours.'),
  system: given.system,
  model: given.model,
  max_tokens: given.maxTokens,
  voice: given.voice,
  speed: given.speed,
})

type QuoteInput = z.infer<typeof inputSchema>

const outputSchema = z.object({
  tool: z.string(),
  model: z.string(),
  price_usdc: z.string().describe('The most that the call can cost.'),
  charge: z.enum(['measured', 'price']).describe('Whether the charge follows what is used, or is the price.'),
})

/** Shows what a call would cost. */
export const quoteTool = defineTool({
  ...TOOL_TEXTS.quote,
  inputSchema,
  outputSchema,
  run: async (session, exchange, input) => {
    const farebox = await session.fareboxWithoutWallet()
    const { signal } = exchange
    const { price, model } = await farebox.quote({ ...(await requestOf(farebox, input, signal)), signal })
    const charge = input.tool === 'chat' ? 'measured' : 'price'
    const structured = {
      tool: input.tool,
      model: modelName(model),
      price_usdc: safeName(price.amount),
      charge,
    } as const
    const most = charge === 'measured' ? 'at most ' : ''
    const text = `${input.tool} with ${structured.model} costs ${most}${structured.price_usdc} USDC.`
    return { structured, content: [{ type: 'text', text }] }
  },
})

async function requestOf({ baseUrl }: Farebox, input: QuoteInput, signal: AbortSignal): Promise<QuoteRequest> {
  const access = { baseUrl, signal }
  switch (input.tool) {
    case 'chat': {
      const { system, max_tokens: maxTokens } = input
      const model = await chooseModel(access, 'text_generation', input.model)
      return { operation: 'createChatCompletion', request: chatRequest(model, textOf(input), { system, maxTokens }) }
    }
    case 'generate_image': {
      const model = await chooseModel(access, 'image_generation', input.model)
      return { operation: 'createImageGeneration', request: imageRequest(model, textOf(input)) }
    }
    case 'speak': {
      const { voice, speed } = input
      const model = await chooseModel(access, 'text_to_speech', input.model)
      await requireVoice(access, model, voice)
      return { operation: 'createSpeech', request: speechRequest(model, textOf(input), { voice, speed }) }
    }
    case 'transcribe': {
      const { duration_seconds: seconds, model = DEFAULT_TRANSCRIPTION_MODEL } = input
      if (seconds === undefined) throw missing('duration_seconds')
      return { operation: 'createTranscription', request: { model, audio: describedRecording(seconds) } }
    }
  }
}

function textOf({ text }: QuoteInput): string {
  if (text === undefined) throw missing('text')
  return text
}

/** The price follows the duration alone, so that no recording is needed. */
function describedRecording(seconds: number) {
  const durationMs = Math.ceil(seconds * 1000)
  return { sha256: '0'.repeat(64), bytes: Math.max(1000, durationMs * 6), duration_ms: durationMs }
}

function missing(name: string): FareboxError {
  const problem = `The argument ${name} is missing for this tool.`
  return uncharged('invalid_arguments', problem, 'Add it.')
}
