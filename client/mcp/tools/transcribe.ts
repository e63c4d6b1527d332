import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ContentBlock } from '@modelcontextprotocol/server'
import * as z from 'zod'
import { OUTPUT_FORMATS, type OutputFormat } from '../../batch/types.ts'
import { FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { safeName, UNTRUSTED_META, untrusted } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool, type ToolResult } from '../tool.ts'
import { type Transcribed, transcribeAll } from '../transcription/transcribe-all.ts'
import { type TranscriptionForm, transcriptionForm, transcriptionSchema } from '../transcription/transcription-form.ts'
import * as given from './arguments.ts'

const LONGEST_PATH = 4096
const MOST_SPEAKERS = 32

const path = z.string().min(1).max(LONGEST_PATH)

const inputSchema = z.strictObject({
  path: path
    .optional()
    .describe('A recording or a folder of recordings in an allowed folder; a relative path begins in one.'),
  url: z.string().min(1).max(LONGEST_PATH).optional().describe('A recording that this machine fetches; https or http.'),
  output_folder: path
    .optional()
    .describe(
      'Where transcripts are written, in an allowed folder. Without it, those of one recording are returned, and those of a folder are written next to the recordings.',
    ),
  formats: z
    .array(z.enum(OUTPUT_FORMATS))
    .min(1)
    .max(OUTPUT_FORMATS.length)
    .optional()
    .describe('The formats of the transcripts; txt by default.'),
  language: z
    .string()
    .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, 'must be a language code such as en')
    .optional()
    .describe('The language, such as en; found by the model by default.'),
  diarize: z
    .boolean()
    .optional()
    .describe('Whether the words name their speakers; by default where the model can. true demands it.'),
  num_speakers: z
    .int()
    .min(1)
    .max(MOST_SPEAKERS)
    .optional()
    .describe('How many people speak at most; demands speakers.'),
  tag_audio_events: z
    .boolean()
    .optional()
    .describe('Whether sounds such as [laughter] are written; by default where the model can. true demands it.'),
  model: given.model,
  request_id: given.requestId,
})

/** Transcribes a recording, a folder or what a URL leads to. */
export const transcribeTool = defineTool({
  ...TOOL_TEXTS.transcribe,
  inputSchema,
  outputSchema: transcriptionSchema,
  run: async (session, exchange, input) => {
    const { path: asked, url, output_folder: outputFolder, request_id: requestId, formats, model, ...fields } = input
    const unique: readonly OutputFormat[] = [...new Set(formats ?? (['txt'] as const))]
    const request = Object.fromEntries(
      Object.entries({ ...fields, model }).filter(([, value]) => value !== undefined),
    ) as Parameters<typeof transcribeAll>[2]['request']
    const done = await transcribeAll(session, exchange, {
      path: asked,
      url,
      outputFolder,
      requestId,
      request,
      formats: unique,
    })
    throwIfNothingDone(done)
    const form = await transcriptionForm(await session.farebox(), done, unique)
    return resultOf(done, form)
  },
})

/** A call without any transcript is an error, with what happened to the money. */
function throwIfNothingDone({ outcome, recordings, plan }: Transcribed): void {
  if (recordings.kind === 'folder' && plan.files.length === 0)
    throw uncharged(
      'no_recordings',
      'There are no recordings in the folder.',
      'Name another folder, or a file whose name does not end like that of a recording.',
    )
  if (outcome.finished + outcome.skipped > 0) return
  if (outcome.stopError !== undefined) throw outcome.stopError
  const [failure] = outcome.failures
  if (recordings.kind !== 'folder' && failure !== undefined) throw failure.error
  if (!outcome.interrupted) return
  throw new FareboxError({
    code: 'aborted',
    problem: 'The call was interrupted.',
    money: 'unknown',
    advice: 'Repeat the call unchanged: each recording is charged once at most.',
  })
}

/** More links would not be followed; the structured content has the paths of more. */
const MOST_LINKS = 50

function resultOf({ outcome, texts }: Transcribed, form: TranscriptionForm): ToolResult<TranscriptionForm> {
  const { recordings, transcribed, failed, not_begun: notBegun, charge_usdc: charge, stopped } = form
  const counts = [
    `${transcribed} of ${recordings} transcribed`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(notBegun > 0 ? [`${notBegun} not begun`] : []),
    ...(stopped === undefined ? [] : [`stopped (${stopped})`]),
    ...(form.without === undefined ? [] : [`without ${form.without.join(' and ')}, which the model does not give`]),
    ...(form.too_long === true ? ['the transcript is too long for a result: name an output_folder'] : []),
  ]
  const summary = { type: 'text', text: `${counts.join(', ')}: charged ${charge} USDC in all.` } as const
  const names = form.files.map(({ name, state, error }) => [name, state, error?.code].filter(Boolean).join(': '))
  return {
    structured: form,
    content: [
      summary,
      ...(texts === null ? untrusted('file', names.slice(0, MOST_LINKS).join('\n')) : []),
      ...(form.transcripts ?? []).flatMap(({ text }) => untrusted('transcript', text)),
      ...form.files
        .flatMap(({ outputs }) => outputs)
        .slice(0, MOST_LINKS)
        .map(linkOf),
    ],
    meta: { 'farebox/replayed': outcome.charged === 0n },
  }
}

/** A link names a file; what is in the file is a transcript. */
function linkOf(output: string): ContentBlock {
  return {
    type: 'resource_link',
    uri: output,
    name: safeName(basename(fileURLToPath(output))),
    _meta: { [UNTRUSTED_META]: { origin: 'transcript' } },
  }
}
