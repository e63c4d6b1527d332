import type { IncomingHttpHeaders } from 'node:http'
import { Piscina } from 'piscina'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { encryptUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { type AnyOperation, operationById } from '#shared/operations/registry.ts'
import { transferableMemoryOf } from '../body-bytes.ts'
import { joinJsonUpload, readJsonUpload } from '../json-upload.ts'
import type { CurrentCatalog } from '../live-catalog.ts'
import { type MeasuredUpload, measureAudio } from '../measure-audio.ts'
import { finishUpload, type Prepared, prepareBody } from '../prepare-request.ts'
import { type PreparedQuote, prepareQuote } from '../quote-request.ts'
import { prepareCall, type ToolCall, toolCallOf, withoutArguments } from '../tool-call.ts'
import { type PlainPrepared, SMALL_BODY_BYTES, type ThreadTasks, valueOrThrow } from './messages.ts'

/** An idle thread is stopped after this time, which frees its memory. */
const IDLE_THREAD_MS = 30_000
/** Several times the largest body as text, parsed, decoded and as canonical text. */
const THREAD_HEAP_MB = 768

/** A JSON body that is too large to be parsed on the event loop. */
export class UnparsedJson {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }
}

/** The arguments of a tool call, which are prepared once: the body of the call to its operation. */
export class CallArguments {
  #prepare: ((read: Catalog) => PreparedQuote) | null

  constructor(prepare: (read: Catalog) => PreparedQuote) {
    this.#prepare = prepare
  }

  /** Returns the prepared request and forgets it: a recording in it must not stay in memory while its caller waits. */
  take(read: Catalog): PreparedQuote {
    const prepare = this.#prepare
    this.#prepare = null
    if (!prepare) throw new Error('these arguments were taken before')
    return prepare(read)
  }
}

/** A JSON-RPC message without the arguments of its tool call. */
export interface ReadMessage {
  readonly message: unknown
  /** `null` for a message that calls none of the tools. */
  readonly call: (Omit<ToolCall, 'arguments'> & { readonly arguments: CallArguments }) | null
}

/**
 * Prepares requests from bodies: small ones on the event loop, large ones on threads, with the same results and errors.
 */
export interface RequestPreparer {
  /**
   * Reads a JSON-RPC message from a parsed body or an `UnparsedJson`, whose bytes are transferred. Throws the 400s of a
   * body; what the arguments of its tool call lack is thrown when they are used.
   */
  readMessage(body: unknown): Promise<ReadMessage>
  /**
   * Prepares a parsed JSON body, an `UnparsedJson`, whose bytes are transferred, or the arguments of a tool call. Throws the
   * 400s of the endpoint. `read` decides its defaults.
   */
  prepareRequest(operation: AnyOperation, body: unknown, read: Catalog): Promise<Prepared>
  /** Does the same for the body of `POST /v1/quotes`. */
  prepareQuote(body: unknown): Promise<PreparedQuote>
  /** Measures an upload. The bytes of a large one are transferred: use those of the result afterwards. */
  measureAudio(audio: Uint8Array): Promise<MeasuredUpload>
  /** Encrypts an upload. The bytes of a large one are transferred and unusable afterwards. */
  encryptUpload(stagedUpload: StagedUpload, audio: Uint8Array): Promise<Uint8Array>
  /** Starts a thread for a body that is about to arrive, if it announces to be large: its caller waits for both. */
  expectBody(headers: IncomingHttpHeaders): void
  close(): Promise<void>
}

/** Large bodies that a process parses and measures at a time, beside its main thread. More need more processes. */
export const PREPARATION_THREADS = 2

/** Creates a preparer for `threads` large bodies at a time; others wait. Threads start when they are first needed. */
export function createRequestPreparer(offered: CurrentCatalog, threads = PREPARATION_THREADS): RequestPreparer {
  const pool = new Piscina({
    filename: new URL('./thread.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: threads,
    idleTimeout: IDLE_THREAD_MS,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
  })
  const runOnThread = async <Name extends keyof ThreadTasks>(
    name: Name,
    task: ThreadTasks[Name]['task'],
    bytes: Uint8Array,
  ): Promise<ThreadTasks[Name]['result']> => await pool.run(task, { name, transferList: transferableMemoryOf(bytes) })
  const prepareOnThread = async ({ bytes }: UnparsedJson, operationId: string | null) => {
    return revive(valueOrThrow(await runOnThread('prepareJson', { bytes, operationId, catalog: offered() }, bytes)))
  }
  const prepareLarge = async (operation: AnyOperation, { bytes }: UnparsedJson): Promise<Prepared> => {
    const { upload } = operation
    if (!upload) return (await prepareOnThread({ bytes }, operation.id)).prepared
    const { jsonField, maximumBase64Length } = upload
    const taken = await runOnThread('takeUpload', { bytes, field: { jsonField, maximumBase64Length } }, bytes)
    if (taken.outcome === 'left') return (await prepareOnThread(taken, operation.id)).prepared
    const { rest, upload: measured } = taken
    const body = joinJsonUpload(rest, upload, measured.audio)
    return finishUpload(readJsonUpload(body, upload, operation.bodySchema), measured)
  }
  const readOnThread = async ({ bytes }: UnparsedJson): Promise<ReadMessage> => {
    const { message, prepared } = valueOrThrow(
      await runOnThread('prepareMessage', { bytes, catalog: offered() }, bytes),
    )
    return messageOf(message, prepared && (() => revive(valueOrThrow(prepared))))
  }
  return {
    readMessage: async (body) => {
      if (body instanceof UnparsedJson) return await readOnThread(body)
      const call = toolCallOf(body)
      return messageOf(withoutArguments(body), call && ((read) => prepareCall(call, { read, offered })))
    },
    prepareRequest: async (operation, body, read) => {
      if (body instanceof CallArguments) return body.take(read).prepared
      if (body instanceof UnparsedJson) return await prepareLarge(operation, body)
      return prepareBody(operation, body, { read, offered })
    },
    prepareQuote: async (given) => {
      if (given instanceof CallArguments) return given.take(offered())
      if (given instanceof UnparsedJson) return await prepareOnThread(given, null)
      return prepareQuote(given, { read: offered(), offered })
    },
    measureAudio: async (audio) =>
      audio.length <= SMALL_BODY_BYTES ? measureAudio(audio) : await runOnThread('measureFile', audio, audio),
    encryptUpload: async (stagedUpload, audio) =>
      audio.length <= SMALL_BODY_BYTES
        ? encryptUpload(stagedUpload, audio)
        : await runOnThread('sealUpload', { audio, stagedUpload }, audio),
    expectBody: ({ 'content-length': announced }) => {
      const isLarge = announced !== undefined && Number(announced) > SMALL_BODY_BYTES
      if (isLarge && pool.threads.length === 0) void pool.run(null, { name: 'start' }).catch(() => undefined)
    },
    close: () => pool.close({ force: true }),
  }
}

function messageOf(message: unknown, prepare: ((read: Catalog) => PreparedQuote) | null): ReadMessage {
  const call = toolCallOf(message)
  return { message, call: call && prepare && { ...call, arguments: new CallArguments(prepare) } }
}

function revive({ operationId, prepared, wantsChallenge }: PlainPrepared): PreparedQuote {
  const operation = operationById(operationId)
  if (prepared.kind !== 'request') return { operation, prepared, wantsChallenge }
  const { quoted, ...request } = prepared
  const quote = () => {
    if (!quoted) throw new Error(`the model ${request.publicModel} is unavailable and has no price`)
    return valueOrThrow(quoted)
  }
  return { operation, prepared: { ...request, quote }, wantsChallenge }
}
