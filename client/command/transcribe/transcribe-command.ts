import { InvalidArgumentError, Option } from 'commander'
import { examples } from '../examples.ts'
import type { RegisterCommand } from '../run.ts'
import type { TranscribeOptions } from './read-task.ts'

const DEFAULT_CONCURRENCY = 8

const LONG_HELP = `
Money:
  Before the first payment the total is shown, and a question asked on a terminal; elsewhere --yes is needed. What
  is paid for is remembered by its content: however often a run is killed and repeated, nothing is paid twice.

Output:
  stdout has the list of --dry-run, transcripts (-, --out -) or, with --json, one object a line with "event":
  planned, totals, approved, started, part, waiting, concurrency, finished, failed, skipped, warning, stopping,
  summary, error. Amounts are decimal USDC, durations milliseconds. Everything else is on stderr.

Exit codes:
  0 all done   1 some failed   2 usage   3 budget used up   4 funds or allowance missing   130 interrupted
  Ctrl-C lets what is under way finish; a second one leaves it, to be taken up by the next run.`

export const registerTranscribe: RegisterCommand = (program, run) => {
  program
    .command('transcribe')
    .summary('transcribe files, folders and globs')
    .description(
      'Transcribes recordings of any format to subtitles or text. A rerun does, and pays for, only what is missing.',
    )
    .argument('[path...]', 'files, folders (with all that is in them), globs; - is audio on standard input')
    .option('-n, --dry-run', 'list recordings, durations and prices; sends no audio and needs no wallet')
    .option('-y, --yes', 'pay without asking')
    .option(
      '-f, --format <list>',
      'txt, srt, vtt, tsv, json; several with commas (default: srt, or txt on standard output)',
    )
    .option('-o, --out <folder>', 'where transcripts go (default: next to the recordings); - is standard output')
    .option('--name <template>', 'name of a transcript: {name}, {ext}, {folder}, {date} (default: {name})')
    .addOption(new Option('--style <style>', 'rules of the subtitles').choices(['netflix', 'bbc', 'plain']))
    .addOption(
      new Option('--speakers <marks>', 'how subtitles show speakers; with none they are not asked for').choices([
        'dash',
        'label',
        'none',
      ]),
    )
    .option('--require-speakers', 'transcribe nothing where no speakers are named (default: go without, and say so)')
    .option('--num-speakers <n>', 'how many people speak at most (default: found by the model)', wholeNumber(1, 32))
    .option('--no-events', 'leave out sounds such as [laughter]')
    .option(
      '-l, --language <code>',
      'language of the recordings, such as en (default: found by the model)',
      languageCode,
    )
    .option('-m, --model <id>', 'model (default: the service’s transcription model)')
    .option('--max-line <n>', 'most characters on a line of a subtitle', wholeNumber(1))
    .option('--max-lines <n>', 'most lines of a subtitle', wholeNumber(1))
    .option(
      '-c, --concurrency <n>',
      'uploads at once; less while the service asks for it',
      wholeNumber(1),
      DEFAULT_CONCURRENCY,
    )
    .option('--pack', 'join short clips, so that the minimum charge is paid once for many')
    .option('--receipts', 'write the receipt of each transcript next to it')
    .option('--again', 'transcribe, and pay for, what is finished already')
    .option('--force', 'overwrite files of the same name that farebox did not write, or that were changed since')
    .option('--files-from <file>', 'read paths from a file, one a line; - is standard input')
    .option('--patience <minutes>', 'how long to wait for a service that is away or busy (default: 60)', wholeNumber(0))
    .addOption(
      new Option('--ffmpeg <path>', 'the ffmpeg to convert and cut with (default: that of the PATH)').env(
        'FAREBOX_FFMPEG',
      ),
    )
    .addHelpText('after', examples(EXAMPLES))
    .addHelpText('after', LONG_HELP)
    .action(
      run(async (context, paths: string[], options: TranscribeOptions) => {
        const { transcribe } = await import('./transcribe.ts')
        return await transcribe(context, paths, options)
      }),
    )
}

const EXAMPLES = [
  ['farebox transcribe interviews/', 'a.srt next to each recording, after a question'],
  ['farebox transcribe --dry-run interviews/', 'what it would cost'],
  ['farebox transcribe talk.mp4 -f vtt,txt -o texts', 'texts/talk.vtt and texts/talk.txt'],
  ['farebox transcribe archive/ --budget 5 --yes', 'never more than 5 USDC; run it again to go on'],
  ['farebox transcribe voicemail/*.mp3 --pack', 'short clips for one minimum charge'],
  ['find . -name "*.m4a" | farebox transcribe --files-from - --yes', 'a list of files'],
  ['ffmpeg -i a.mkv -f mp3 - | farebox transcribe - --yes', 'audio on standard input, text on standard output'],
  ['farebox transcribe inbox/ --yes --json', 'one JSON object for each event, for a program'],
] as const

/** Returns a parser of whole numbers from a smallest one on, up to a largest one if there is one. */
function wholeNumber(smallest: number, largest?: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d{1,9}$/.test(text) && number >= smallest && number <= (largest ?? number)) return number
    const range = largest === undefined ? `of at least ${smallest}` : `from ${smallest} to ${largest}`
    throw new InvalidArgumentError(`Write a whole number ${range}.`)
  }
}

/** Refuses names of languages, which no model knows: each recording would be sent and refused by itself. */
function languageCode(text: string): string {
  if (/^[a-z]{2,3}(-[a-z0-9]{1,8})*$/i.test(text)) return text
  throw new InvalidArgumentError('Write the code of a language, such as en, eng or pt-BR.')
}
