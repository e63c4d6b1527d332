import type { Answer, Wire } from '../../farebox.ts'
import { onlyMediaOf } from '../../media/download.ts'
import { FASTEST, SLOWEST, speechRequest } from '../../requests/text-requests.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { type PaidOptions, priceCalls } from './calls/make-calls.ts'
import { notePayment, paymentForm } from './calls/notes.ts'
import { addPriceLimit, addRequestId, decimalBetween } from './calls/option-values.ts'
import { readText } from './calls/read-text.ts'
import { chooseModel, choosePaidModel, listVoices, requireVoice } from './calls/service-lists.ts'
import { adviceFor, planTargets, STDOUT, saveMedia } from './media/write-media.ts'
import { renderTable } from './text-table.ts'

interface SayOptions extends PaidOptions {
  readonly voice?: string
  readonly speed?: number
  readonly out?: string
  readonly force?: boolean
  readonly listVoices?: boolean
}

const SHOWN_LANGUAGES = 6

export const registerSay: RegisterCommand = (program, run) => {
  const command = program
    .command('say')
    .summary('speak a text')
    .description('Speaks a text, and prints the name of the MP3.')
    .argument('[text...]', 'what to say; - stands for standard input, which is also read without a text')
    .option('-o, --out <file>', 'file, folder, or - for stdout; named after the text by default')
    .option('-v, --voice <id>', 'the voice; the default voice of the model by default')
    .option('--speed <factor>', `from ${SLOWEST} to ${FASTEST}`, decimalBetween(SLOWEST, FASTEST))
    .option('-m, --model <id>', 'the model; the first speech model of the service by default')
    .option('--list-voices', 'list the voices, and say nothing')
    .option('--force', 'replace a file that exists')
  addPriceLimit(addRequestId(command))
    .addHelpText(
      'after',
      examples([
        ['farebox say "Mind the gap." --voice talia --out gap.mp3', 'one MP3'],
        ['farebox say --out talk.mp3 < talk.txt', 'speak a file'],
        ['farebox say "Mind the gap." --out - | mpg123 -', 'play it'],
        ['farebox say --list-voices', 'voices and their languages'],
      ]),
    )
    .action(run(say))
}

async function say(context: CommandContext, words: readonly string[], options: SayOptions): Promise<ExitCode> {
  if (options.listVoices === true) return await printVoices(context, options.model)
  const { io, signal } = context
  const { voice, out, force = false, max: limit, requestId } = options
  const text = await readText(io, words, signal, 'text')
  const [target = ''] = planTargets(io, { out, count: 1, ending: '.mp3', text, force })
  const { id } = await choosePaidModel(context, 'text_to_speech', options.model)
  if (voice !== undefined) await requireVoice(context, id, voice)
  const request = speechRequest(id, text, options)
  const make = await priceCalls(context, { operation: 'createSpeech', request, limit, requestId }, 'say')
  return await make((answer) => saveSpeech(context, answer, target))
}

async function saveSpeech(
  context: CommandContext,
  { result, payment }: Answer<Wire.CreateSpeechResult>,
  target: string,
): Promise<ExitCode> {
  const { output } = context
  const isInOrder = notePayment(output, payment)
  const { url, bytes, duration_ms: durationMs, expires_at: urlExpiresAt } = onlyMediaOf(result, adviceFor(payment.key))
  await saveMedia(context, target, { url, bytes }, payment.key)
  const form = { file: target, bytes, durationMs, model: result.model, url, urlExpiresAt }
  if (target !== STDOUT) output.result({ ...form, payment: paymentForm(payment) }, target)
  return isInOrder ? EXIT.done : EXIT.failed
}

/** Voices of large models speak dozens of languages, which `--json` lists. */
function languagesOf(languages: readonly string[]): string {
  const shown = languages.slice(0, SHOWN_LANGUAGES).join(', ')
  return languages.length > SHOWN_LANGUAGES ? `${shown} and ${languages.length - SHOWN_LANGUAGES} more` : shown
}

async function printVoices(context: CommandContext, asked: string | undefined): Promise<ExitCode> {
  const model = await chooseModel(context, 'text_to_speech', asked)
  const voices = await listVoices(context, model.id)
  const rows = voices.map(({ id, default_for_models: defaults, description, languages }) => [
    defaults.includes(model.id) ? `${id} (default)` : id,
    description,
    languagesOf(languages),
  ])
  if (context.output.json) for (const voice of voices) context.output.event(voice)
  else context.output.result({}, renderTable(['voice', 'description', 'languages'], rows))
  return EXIT.done
}
