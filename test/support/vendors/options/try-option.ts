import type { AdapterName } from '#shared/catalog/adapter-names.ts'
import { carriersOf, parseDeployments } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { type JsonValue, storedJson } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { parseEffectiveRequest } from '#shared/jobs/parse-effective-request.ts'
import { operationById } from '#shared/operations/registry.ts'
import { invalidField } from '../../../../api/request/field-errors.ts'
import { createMp3Converter } from '../../../../workers/executions/convert-to-mp3.ts'
import type { ExecutionInput } from '../../../../workers/executions/execution.ts'
import { createExecutions } from '../../../../workers/executions/registry.ts'
import { createDeployments } from '../../../../workers/providers/create-deployments.ts'
import type { HttpOutcome, HttpRequest } from '../../../../workers/providers/http.ts'
import { readBody } from '../request-bodies.ts'
import type { Probe, TabledOperation } from './probes.ts'

/** A deployment with the options that it is tried with. */
export interface TriedDeployment {
  readonly adapter: AdapterName
  readonly upstream_model: string
  readonly options?: Record<string, JsonValue>
}

/** What became of an option: refused, or what it changed in the vendor's request and in the caller's answer. */
export type Trial =
  | { readonly outcome: 'refused'; readonly param: string | undefined }
  | {
      readonly outcome: 'priced'
      readonly sent: readonly Change[]
      /** Whether the vendor's request has the caller's field with the caller's value. */
      readonly isSame: boolean
      readonly isAnswerChanged: boolean
      /** Whether the option is refused without the probe's base. */
      readonly needsBase: boolean
    }

export interface Change {
  /** `tools[].function.strict`. */
  readonly path: string
  readonly value: unknown
}

const audio = { sha256: 'a'.repeat(64), bytes: 1000, durationMs: 2000 }

const BASES: Readonly<Record<TabledOperation, object>> = {
  createChatCompletion: { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }] },
  createMessage: { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 512 },
  createSpeech: { model: 'speechvendor/flash-v2.5', input: 'Hello' },
  createTranscription: { model: 'speechvendor/scribe-v2' },
}

/** Tries an option with one deployment: validates, translates, prices and executes the request with and without it. */
export async function tryOption(operation: TabledOperation, probe: Probe, deployment: TriedDeployment): Promise<Trial> {
  const base = { ...BASES[operation], ...probe.base }
  const without = await execute(operation, base, deployment)
  const full = await execute(operation, { ...base, ...probe.fields }, deployment)
  if (without instanceof AppError)
    throw new Error(`the base of ${JSON.stringify(probe)} is refused: ${without.message}`)
  if (full instanceof AppError) return { outcome: 'refused', param: full.param }
  const alone = probe.base && (await execute(operation, { ...BASES[operation], ...probe.fields }, deployment))
  const needsBase = alone instanceof AppError
  const isAnswerChanged = withoutIds(full.answer) !== withoutIds(without.answer)
  const sent = changesBetween(without.request, full.request)
  const { body } = full.request as { readonly body: Readonly<Record<string, JsonValue>> }
  const isSame = Object.entries(probe.fields).every(
    ([name, value]) => JSON.stringify(body[name]) === JSON.stringify(value),
  )
  return { outcome: 'priced', sent, isSame, isAnswerChanged, needsBase }
}

/** Every answer has ids of calls of its own. */
function withoutIds(answer: unknown): string {
  return JSON.stringify(answer).replaceAll(/call_[0-9a-f]{24}/g, 'call')
}

interface Executed {
  readonly request: JsonValue
  readonly answer: unknown
}

async function execute(id: TabledOperation, body: object, tried: TriedDeployment): Promise<Executed | AppError> {
  const operation = operationById(id)
  const parsed = operation.bodySchema.safeParse(body)
  if (!parsed.success) return invalidField(parsed.error, body)
  const { model } = BASES[id] as { readonly model: string }
  const file = parseDeployments({
    deployments: [{ ...tried, name: 'a', base_url: 'http://vendor', api_key_env: 'KEY', serves: [model] }],
  })
  const catalog = { ...publishedCatalog, carriers: carriersOf(file) }
  let effective: JsonValue
  try {
    effective = operation.effectiveRequest(parsed.data, operation.upload === null ? null : audio, catalog)
    operation.quote(effective, catalog)
  } catch (error) {
    if (error instanceof AppError) return error
    throw error
  }
  const sent: HttpRequest[] = []
  const [deployment] = createDeployments(file, {
    environment: { KEY: 'a-key' },
    providerKeys: providerKeysOf(file),
    http: (request) => {
      sent.push(request)
      return Promise.resolve(answerOf(tried.adapter))
    },
  })
  if (deployment === undefined) throw new Error('there is no deployment')
  const effectiveRequest = operation.effectiveRequestSchema.parse(parseEffectiveRequest(storedJson(effective)))
  const job = { id: 'job', effectiveRequest, publicModel: model, isNewPayer: false, authorization: { payer: '0x0' } }
  const execution = createExecutions({ fetchAll: () => Promise.resolve(new Map()) }, createMp3Converter(undefined))(id)
  const prepared = await execution.prepare({ job, audio: new Uint8Array([0xff, 0xfb]) } as unknown as ExecutionInput, {
    extendTo: () => true,
    shrinkTo: () => undefined,
  })
  const outcome = await prepared.call(deployment, { timeoutMs: 600_000 })
  const [request] = sent
  if (request === undefined) throw new Error(`priced and not sent: ${JSON.stringify(outcome)}`)
  const answer =
    outcome.outcome === 'produced' && outcome.product.media === null
      ? outcome.product.result(null, new Date(0))
      : outcome.outcome
  return { request: { url: request.url, body: (await readBody(request)) as JsonValue }, answer }
}

const USES = ['weather', 'clock']

/** Returns an answer with two calls, so that an option that concerns the answer shows in it. */
function answerOf(adapter: AdapterName): HttpOutcome {
  const answers: Readonly<Partial<Record<AdapterName, object>>> = {
    'openai-compatible': {
      id: 'a',
      choices: [
        {
          finish_reason: 'tool_calls',
          message: {
            content: null,
            tool_calls: USES.map((name) => ({ id: name, type: 'function', function: { name, arguments: '{}' } })),
          },
        },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 9 },
    },
    gemini: {
      responseId: 'a',
      candidates: [
        {
          content: { role: 'model', parts: USES.map((name) => ({ functionCall: { name, args: {} } })) },
          finishReason: 'STOP',
        },
      ],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 9, totalTokenCount: 18 },
    },
    anthropic: {
      id: 'a',
      type: 'message',
      role: 'assistant',
      content: USES.map((name) => ({ type: 'tool_use', id: name, name, input: {} })),
      stop_reason: 'tool_use',
      usage: { input_tokens: 9, output_tokens: 9 },
    },
  }
  const bytes = Buffer.from(JSON.stringify(answers[adapter] ?? {}))
  return { outcome: 'response', status: 200, headers: new Headers(), bytes }
}

/** Returns the places in which two requests differ, the items of a list as one place, a list that grows or shrinks as a whole. */
function changesBetween(before: JsonValue | undefined, after: JsonValue | undefined, path = ''): readonly Change[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  if (!isObject(before) || !isObject(after) || isResized(before, after)) {
    // An object that is new is named by its only member, as far as that goes.
    const isNew = before === undefined && isObject(after) && !Array.isArray(after) && Object.keys(after).length === 1
    return isNew ? changesBetween({}, after, path) : [{ path: path.replace(/^body\.?/, ''), value: after }]
  }
  const changes = [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
    changesBetween(
      before[name],
      after[name],
      Array.isArray(after) ? `${path}[]` : [path, name].filter(Boolean).join('.'),
    ),
  )
  return changes.filter((change, index) => changes.findIndex((other) => other.path === change.path) === index)
}

function isResized(before: JsonValue, after: JsonValue): boolean {
  return Array.isArray(before) && Array.isArray(after) && before.length !== after.length
}

function isObject(value: JsonValue | undefined): value is Readonly<Record<string, JsonValue>> {
  return typeof value === 'object' && value !== null
}
