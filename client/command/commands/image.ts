import pLimit from 'p-limit'
import type { Answer, Wire } from '../../farebox.ts'
import { onlyMediaOf } from '../../media/download.ts'
import { imageRequest } from '../../requests/text-requests.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode, UsageError } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { type PaidOptions, priceCalls } from './calls/make-calls.ts'
import { notePayment, paymentForm } from './calls/notes.ts'
import { addPriceLimit, addRequestId, integerBetween } from './calls/option-values.ts'
import { readText } from './calls/read-text.ts'
import { choosePaidModel } from './calls/service-lists.ts'
import { adviceFor, planTargets, STDOUT, saveMedia } from './media/write-media.ts'

interface ImageOptions extends PaidOptions {
  readonly out?: string
  readonly number: number
  readonly force?: boolean
}

const MOST_IMAGES = 100
/** Each image takes seconds and is paid for on its own. */
const CONCURRENT_IMAGES = 4

export const registerImage: RegisterCommand = (program, run) => {
  const command = program
    .command('image')
    .summary('make images')
    .description('Makes images, and prints the names of the files.')
    .argument('[prompt...]', 'what to show; - stands for standard input, which is also read without a prompt')
    .option('-o, --out <file>', 'file, folder, or - for stdout; named after the prompt by default')
    .option('-n, --number <n>', 'how many, each paid for: cat-1.png, cat-2.png, …', integerBetween(1, MOST_IMAGES), 1)
    .option('-m, --model <id>', 'the model; the first image model of the service by default')
    .option('--force', 'replace files that exist')
  addPriceLimit(addRequestId(command))
    .addHelpText(
      'after',
      examples([
        ['farebox image "A cat on a tram" --out cat.png', 'one image'],
        ['farebox image "A cat on a tram" --out cat.png -n 4', 'cat-1.png to cat-4.png'],
        ['farebox image "A cat on a tram" --max 0.05 --out - | display', 'only up to a price; to another program'],
      ]),
    )
    .action(run(image))
}

async function image(context: CommandContext, words: readonly string[], options: ImageOptions): Promise<ExitCode> {
  const { model: asked, max: limit, requestId, number: count, out, force = false } = options
  if (requestId !== undefined && count > 1) throw new UsageError('--request-id is the key of one image: leave out -n.')
  const { io, output, signal } = context
  const prompt = await readText(io, words, signal, 'prompt')
  const targets = planTargets(io, { out, count, ending: '.png', text: prompt, force })
  const model = await choosePaidModel(context, 'image_generation', asked)
  const request = imageRequest(model.id, prompt)
  const call = { operation: 'createImageGeneration', request, count, limit, requestId } as const
  const make = await priceCalls(context, call, 'image')
  const concurrently = pLimit(CONCURRENT_IMAGES)
  const outcomes = await Promise.allSettled(
    targets.map((target) =>
      concurrently(async () => {
        if (signal.aborted) throw new NotBegun()
        return await make((answer) => saveImage(context, answer, target))
      }),
    ),
  )
  const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
  const begun = failures.filter((failure) => !(failure instanceof NotBegun))
  if (begun.length < failures.length) output.note(`${failures.length - begun.length} of ${count} were not begun`)
  // The last one is thrown, so that the program prints it and takes the exit code from it.
  for (const failure of begun.slice(0, -1)) output.error(failure)
  if (failures.length > 0) throw begun.at(-1) ?? failures[0]
  return outcomes.every((outcome) => outcome.status === 'fulfilled' && outcome.value) ? EXIT.done : EXIT.failed
}

/** The command was interrupted before this image. */
class NotBegun extends FareboxError {
  constructor() {
    super({ code: 'aborted', problem: 'The command was interrupted.', money: 'none', advice: 'Run it again.' })
  }
}

/** Returns whether the payment is in order. */
async function saveImage(
  context: CommandContext,
  { result, payment }: Answer<Wire.CreateImageGenerationResult>,
  target: string,
): Promise<boolean> {
  const { output } = context
  const { url, url_expires_at: urlExpiresAt } = onlyMediaOf(result, adviceFor(payment.key))
  const isInOrder = notePayment(output, payment)
  const bytes = await saveMedia(context, target, { url }, payment.key)
  const form = { file: target, bytes: bytes.length, model: result.model, url, urlExpiresAt }
  if (target !== STDOUT) output.result({ ...form, payment: paymentForm(payment) }, target)
  return isInOrder
}
