import type { Answer, Wire } from '../../farebox.ts'
import { chatRequest, MOST_TOKENS } from '../../requests/text-requests.ts'
import { examples } from '../examples.ts'
import { EXIT } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { type PaidOptions, priceCalls } from './calls/make-calls.ts'
import { notePayment, paymentForm } from './calls/notes.ts'
import { addPriceLimit, addRequestId, integerBetween } from './calls/option-values.ts'
import { readText } from './calls/read-text.ts'
import { choosePaidModel } from './calls/service-lists.ts'

interface ChatOptions extends PaidOptions {
  readonly system?: string
  readonly maxTokens?: number
}

export const registerChat: RegisterCommand = (program, run) => {
  const command = program
    .command('chat')
    .summary('answer a prompt')
    .description('Answers a prompt. The answer goes to stdout, what was charged to stderr.')
    .argument('[prompt...]', 'the prompt; - stands for standard input, which is also read without a prompt')
    .option('-m, --model <id>', 'the model; the first text model of the service by default')
    .option('-s, --system <text>', 'instructions for the model')
    .option('--max-tokens <n>', 'longest answer, which also bounds the price', integerBetween(1, MOST_TOKENS))
  addPriceLimit(addRequestId(command))
    .addHelpText(
      'after',
      examples([
        ['farebox chat "Name three tram stops."', 'answer a prompt'],
        ['farebox chat "Summarize:" - < talk.txt', 'put a file behind the prompt'],
        ['farebox chat --max 0.01 --max-tokens 200 "…"', 'refuse a price above 0.01 USDC'],
        ['farebox chat --json "…" | jq -r .text', 'for programs'],
      ]),
    )
    .action(run(chat))
}

async function chat(context: CommandContext, words: readonly string[], options: ChatOptions) {
  const { io, signal } = context
  const prompt = await readText(io, words, signal, 'prompt')
  const model = await choosePaidModel(context, 'text_generation', options.model)
  const request = chatRequest(model.id, prompt, options)
  const call = { operation: 'createChatCompletion', request, limit: options.max, requestId: options.requestId } as const
  const make = await priceCalls(context, call, 'chat')
  return await make((answer) => printAnswer(context, answer))
}

async function printAnswer(
  { io, output }: CommandContext,
  { result, payment }: Answer<Wire.CreateChatCompletionResult>,
) {
  const [choice] = result.choices
  const text = choice?.message.content ?? choice?.message.refusal ?? ''
  if (output.json) {
    const form = { model: result.model, text, finishReason: choice?.finish_reason, usage: result.usage }
    output.event({ ...form, payment: paymentForm(payment) })
  } else await output.content(`${io.stdout.isTTY === true ? safeForTerminal(text) : text}\n`)
  const isInOrder = notePayment(output, payment)
  if (choice?.finish_reason === 'length') output.warn('the answer is cut off: raise --max-tokens')
  if (choice?.finish_reason === 'content_filter') output.warn('the model’s content filter ended the answer')
  return isInOrder ? EXIT.done : EXIT.failed
}

/** An answer may contain escape sequences, which a terminal would obey. */
export function safeForTerminal(text: string): string {
  return text.replace(/(?![\n\t])\p{Cc}/gu, '')
}
