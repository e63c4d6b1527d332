import { parseUsdc } from '../../budget/usdc.ts'
import { chatRequest, MOST_TOKENS, speechRequest } from '../../requests/text-requests.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode, UsageError } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { usdc } from '../transcribe/amounts.ts'
import { addPriceLimit, integerBetween, requirePrice } from './calls/option-values.ts'
import type { Price } from './calls/quote-recordings.ts'
import { readText } from './calls/read-text.ts'
import { chooseModel, requireVoice } from './calls/service-lists.ts'
import { renderTable } from './text-table.ts'

interface QuoteOptions {
  readonly chat?: string
  readonly image?: string
  readonly say?: string
  readonly model?: string
  readonly system?: string
  readonly maxTokens?: number
  readonly voice?: string
  readonly max?: bigint
  readonly ffmpeg?: string
}

export const registerQuote: RegisterCommand = (program, run) => {
  const command = program
    .command('quote')
    .summary('show a price')
    .description('Shows what a call would cost. Sends no audio, pays nothing and needs no wallet.')
    .argument('[file...]', 'recordings to be transcribed')
    .option('--chat <prompt>', 'a prompt for `farebox chat`; - is standard input')
    .option('--image <prompt>', 'a prompt for `farebox image`; - is standard input')
    .option('--say <text>', 'a text for `farebox say`; - is standard input')
    .option('-m, --model <id>', 'the model; the first one of its kind by default')
    .option('-s, --system <text>', 'instructions, with --chat')
    .option('--max-tokens <n>', 'longest answer, with --chat', integerBetween(1, MOST_TOKENS))
    .option('-v, --voice <id>', 'the voice, with --say')
    .option('--ffmpeg <path>', 'the ffmpeg to convert and cut with (default: that of the PATH)')
  addPriceLimit(command)
    .addHelpText(
      'after',
      examples([
        ['farebox quote talk.m4a', 'what its transcription would cost'],
        ['farebox quote --chat "Name three tram stops." --max-tokens 100', 'the most that an answer would cost'],
        ['farebox quote --say - --max 0.05 < talk.txt', 'exit code 3 if it is more than 0.05 USDC'],
        ['farebox transcribe --dry-run talks/', 'folders, and without what is done already'],
      ]),
    )
    .action(run(quote))
}

async function quote(context: CommandContext, files: readonly string[], options: QuoteOptions): Promise<ExitCode> {
  requireOneModel(files, options)
  const prices = [...(await quoteTexts(context, options))]
  let hasFailed = false
  if (files.length > 0) {
    const { quoteRecordings } = await import('./calls/quote-recordings.ts')
    const { priced, failures } = await quoteRecordings(context, files, options)
    for (const failure of failures) context.output.error(failure)
    hasFailed = failures.length > 0
    prices.push(...priced)
  }
  const total = prices.reduce((sum, { price }) => sum + price, 0n)
  if (context.output.json) for (const { details: _, ...price } of prices) context.output.event(price)
  else if (prices.length > 0) context.output.result({}, describePrices(prices, total))
  requirePrice(total, options.max)
  return hasFailed ? EXIT.failed : EXIT.done
}

/** A model can only be that of one kind of calls. */
function requireOneModel(files: readonly string[], { chat, image, say, model }: QuoteOptions): void {
  const kinds = [chat, image, say, files[0]].filter((each) => each !== undefined)
  if (kinds.length === 0) throw new UsageError('Nothing to price: name a recording, or add --chat, --image or --say.')
  if (kinds.length > 1 && model !== undefined)
    throw new UsageError('--model is for one kind of call: leave out the others.')
  if (kinds.filter((each) => each === '-').length > 1)
    throw new UsageError('Standard input can be read only once: write - only once.')
}

async function quoteTexts(context: CommandContext, options: QuoteOptions): Promise<readonly Price[]> {
  const { chat, image, say, model, voice } = options
  const prices: Price[] = []
  if (chat !== undefined) {
    const prompt = await readText(context.io, [chat], context.signal, 'prompt')
    const { id } = await chooseModel(context, 'text_generation', model)
    prices.push(await askPrice(context, 'chat', 'createChatCompletion', chatRequest(id, prompt, options)))
  }
  if (image !== undefined) {
    const prompt = await readText(context.io, [image], context.signal, 'prompt')
    const { id } = await chooseModel(context, 'image_generation', model)
    prices.push(await askPrice(context, 'image', 'createImageGeneration', { model: id, prompt }))
  }
  if (say !== undefined) {
    const text = await readText(context.io, [say], context.signal, 'text')
    const { id } = await chooseModel(context, 'text_to_speech', model)
    if (voice !== undefined) await requireVoice(context, id, voice)
    prices.push(await askPrice(context, 'say', 'createSpeech', speechRequest(id, text, options)))
  }
  return prices
}

type TextOperation = 'createChatCompletion' | 'createImageGeneration' | 'createSpeech'

async function askPrice(
  context: CommandContext,
  what: string,
  operation: TextOperation,
  request: Readonly<Record<string, unknown>> & { readonly model: string },
): Promise<Price> {
  const farebox = await context.farebox({ needsWallet: false })
  const { price } = await farebox.quote({ operation, request, signal: context.signal })
  const isMaximum = operation === 'createChatCompletion'
  const details = isMaximum ? 'at most; the charge follows the use' : ''
  return { what, model: request.model, price: parseUsdc(price.amount), isMaximum, details }
}

function describePrices(prices: readonly Price[], total: bigint): string {
  const rows = prices.map(({ what, model, price, details = '' }) => [what, model, usdc(price), details])
  const sum = prices.length > 1 ? [['total', '', usdc(total), '']] : []
  return renderTable(['', 'model', 'price', ''], [...rows, ...sum], { right: [2] })
}
