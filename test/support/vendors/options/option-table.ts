import type { AdapterName } from '#shared/catalog/adapter-names.ts'
import { operationById } from '#shared/operations/registry.ts'
import sdks from '../../../sdks/package.json' with { type: 'json' }
import { PROBES, type Probe, type TabledOperation } from './probes.ts'
import { type Trial, type TriedDeployment, tryOption } from './try-option.ts'

type Family = readonly [title: string, adapter: AdapterName, deployments: readonly TriedDeployment[]]

const openAi = (upstream_model: string, options = {}): TriedDeployment => ({
  adapter: 'openai-compatible',
  upstream_model,
  options,
})
const gemini = (upstream_model: string, options = {}): TriedDeployment => ({
  adapter: 'gemini',
  upstream_model,
  options,
})
const anthropic = (upstream_model: string, options = {}): TriedDeployment => ({
  adapter: 'anthropic',
  upstream_model,
  options,
})

/** A deployment of each kind as it is set by default, and one that takes as much as the adapter can send. */
const TEXT: readonly Family[] = [
  [
    'OpenAI-style',
    'openai-compatible',
    [
      openAi('gpt-4.1-mini'),
      openAi('gpt-6-luna', {
        reasoning_effort: 'high',
        lowest_reasoning_effort: 'none',
        sampling: 'full',
        send_top_k: true,
        send_verbosity: true,
        maximum_stop_sequences: 16,
      }),
    ],
  ],
  [
    'Gemini',
    'gemini',
    [gemini('gemini-3.6-flash'), gemini('gemini-2.5-flash'), gemini('gemini-3.5-flash', { thinking_level: 'high' })],
  ],
  [
    'Claude',
    'anthropic',
    [
      anthropic('claude-sonnet-5'),
      anthropic('claude-haiku-4-5', { sampling: 'full', thinking: 'adaptive', effort: 'max' }),
    ],
  ],
]
const MEDIA: readonly Family[] = [
  ['OpenAI-style', 'openai-compatible', [openAi('whisper-1')]],
  ['ElevenLabs', 'elevenlabs', [{ adapter: 'elevenlabs', upstream_model: 'eleven' }]],
]

const RECORDINGS: readonly Family[] = [
  ['OpenAI-style', 'openai-compatible', [openAi('whisper-1'), openAi('voxtral', { transcript_detail: 'text' })]],
  ['ElevenLabs', 'elevenlabs', [{ adapter: 'elevenlabs', upstream_model: 'eleven' }]],
]

/** The adapters that are tried with each operation, with the deployments of each. */
export const FAMILIES: Readonly<Record<TabledOperation, readonly Family[]>> = {
  createChatCompletion: TEXT,
  createMessage: TEXT,
  createSpeech: MEDIA,
  createTranscription: RECORDINGS,
}

/** What becomes of an option at one adapter. */
export interface Cell {
  readonly adapter: AdapterName
  readonly kind: 'sent' | 'translated' | 'kept in the answer' | 'left out' | 'the default' | 'refused'
  /** As the table shows it. */
  readonly text: string
  readonly trials: readonly Trial[]
}

export interface Row {
  readonly operation: TabledOperation
  readonly field: string
  readonly value: string
  /** What was sent with the option because it is refused without. */
  readonly needs: readonly string[]
  readonly cells: readonly Cell[]
}

/** Tries every option with every adapter. */
export async function tryOptions(operation: TabledOperation): Promise<readonly Row[]> {
  const rows = Object.entries(PROBES[operation]).flatMap(([field, probes]) =>
    probes.map(async (probe): Promise<Row> => {
      const cells = FAMILIES[operation].map(async ([, adapter, deployments]) => {
        const trials = await Promise.all(deployments.map((deployment) => tryOption(operation, probe, deployment)))
        return cellOf(adapter, field, probe, trials)
      })
      const tried = await Promise.all(cells)
      return { operation, field, value: valueOf(field, probe), needs: needsOf(probe, tried), cells: tried }
    }),
  )
  return await Promise.all(rows)
}

function needsOf({ base = {} }: Probe, cells: readonly Cell[]): readonly string[] {
  const trials = cells.flatMap((cell) => cell.trials)
  return trials.some((trial) => trial.outcome === 'priced' && trial.needsBase)
    ? Object.entries(base).map(fieldText)
    : []
}

function fieldText([name, value]: readonly [string, unknown]): string {
  return typeof value === 'object' ? `\`${name}\`` : `\`${name}\` ${JSON.stringify(value)}`
}

function valueOf(field: string, { label, fields }: Probe): string {
  return label ?? JSON.stringify((fields as Readonly<Record<string, unknown>>)[field])
}

/** The kind is the best of all deployments; what another one of the adapter does is said beside it. */
function cellOf(adapter: AdapterName, field: string, probe: Probe, trials: readonly Trial[]): Cell {
  const kinds = trials.map((trial) => kindOf(field, trial))
  const kind = ORDER.find((one) => kinds.includes(one)) ?? 'refused'
  const best = textOf(kind, trials[kinds.indexOf(kind)])
  const others = LESS.filter((other) => other !== kind && kinds.includes(other))
  if (kind === 'left out' && others.length === 0 && probe.isDefault)
    return { adapter, kind: 'the default', text: 'the default', trials }
  return { adapter, kind, text: [best, ...others].join(', or '), trials }
}

const LESS = ['left out', 'refused'] as const
const ORDER = ['sent', 'translated', 'kept in the answer', ...LESS] as const

function kindOf(field: string, trial: Trial): Cell['kind'] {
  if (trial.outcome === 'refused') return 'refused'
  if (trial.sent.length === 0) return trial.isAnswerChanged ? 'kept in the answer' : 'left out'
  return trial.isSame || trial.sent.every(({ path }) => path === field) ? 'sent' : 'translated'
}

const LONGEST_VALUE = 24

function textOf(kind: Cell['kind'], trial: Trial | undefined): string {
  if (trial?.outcome !== 'priced' || kind !== 'translated') return kind
  const places = trial.sent.map(({ path, value }) => {
    const shown = value === undefined ? 'left out' : typeof value === 'object' ? '' : JSON.stringify(value)
    return `\`${path}\`${shown === '' || shown.length > LONGEST_VALUE ? '' : ` ${shown}`}`
  })
  return `→ ${places.join(', ')}`
}

const TITLES: Readonly<Record<TabledOperation, string>> = {
  createChatCompletion: 'Chat completions',
  createMessage: 'Messages',
  createSpeech: 'Speech',
  createTranscription: 'Transcriptions',
}

/** Renders the page of all options. */
export async function renderOptions(): Promise<string> {
  const sections = Object.keys(TITLES).map(async (id) => {
    const operation = id as TabledOperation
    const rows = await tryOptions(operation)
    const families = FAMILIES[operation].map(([title]) => title)
    return [
      `## ${TITLES[operation]}`,
      `\`POST ${operationById(operation).path}\``,
      [
        `| field | value | ${families.join(' | ')} |`,
        `| --- | --- | ${families.map(() => '---').join(' | ')} |`,
        ...rows.map(
          ({ field, value, needs, cells }) =>
            `| \`${field}\` | ${[code(value), ...needs].join(' with ')} | ${cells.map(({ text }) => text).join(' | ')} |`,
        ),
      ].join('\n'),
    ].join('\n\n')
  })
  return `${[HEADER(sdkVersions()), ...(await Promise.all(sections))].join('\n\n')}\n`
}

/** Returns the versions of the SDKs whose types `test/sdks` holds the fields against. */
function sdkVersions(): string {
  const names = ['openai', '@anthropic-ai/sdk'] as const
  return names.map((name) => `\`${name}\` ${sdks.devDependencies[name]}`).join(' and ')
}

function code(value: string): string {
  return /^["[{\d-]|^(true|false)$/.test(value) && !value.includes(' text')
    ? `\`${value.replaceAll('|', '\\|')}\``
    : value
}

const HEADER = (versions: string) => `<!-- Generated by trying each option with each adapter: npm run generate -->

# What becomes of each option

Every field that the request types of ${versions} have, tried with a value against each kind of
vendor that can serve a model; [Options](CALLING.md#options) says why.

- **sent**: as it is, under this name.
- **→ field**: translated to the vendor's field.
- **kept in the answer**: the vendor has no such option; the service keeps it itself.
- **the default**: asks for nothing, so nothing is sent.
- **left out**: accepted, and changes nothing there; [Options](CALLING.md#options) has a sentence on each.
- **refused**: 400 with the field's name, before any price.

A value "with" other fields is refused without them. Where a cell says "or", it depends on the vendor's model. A request
is refused only if none of the model's vendors takes it, and is sent to one that does.`
