import { Piscina } from 'piscina'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { encryptUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { type AnyOperation, operationById } from '#shared/operations/registry.ts'
import { ownMemoryOf } from '../byte-buffer.ts'
import { type MeasuredUpload, measureAudio } from '../measure-audio.ts'
import { type Prepared, prepareBody } from '../prepare-request.ts'
import { readQuoteEnvelope } from '../quote-request.ts'
import { type PlainPrepared, type ThreadTasks, valueOf } from './messages.ts'

/** Up to here everything together takes a few milliseconds, which is what a thread's round trip is worth. */
export const SMALL_BODY_BYTES = 256 * 1024

/** A thread that has nothing to do gives its memory back. */
const IDLE_THREAD_MS = 30_000
/** The largest body as text, its parts, the bytes that it encodes and the canonical text, several times over. */
const THREAD_HEAP_MB = 768

/** A JSON body that is too large to be parsed on the event loop. */
export class UnparsedJson {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }
}

/** Turns bodies into requests: small ones at once, large ones on threads, with the same results and the same errors. */
export interface RequestPreparer {
  /** `body` is a parsed JSON body or an `UnparsedJson`, whose bytes are gone afterwards. Throws the 400s of the endpoint. */
  prepareRequest(operation: AnyOperation, body: unknown): Promise<Prepared>
  /** The same for a question for a quote. */
  prepareQuote(body: unknown): Promise<{ operation: AnyOperation; prepared: Prepared }>
  /** The bytes of a large upload move: only those of the answer may be used afterwards. */
  measureAudio(audio: Uint8Array): Promise<MeasuredUpload>
  /** Encrypts; the bytes of a large upload are gone afterwards. */
  encryptUpload(stagedUpload: StagedUpload, audio: Uint8Array): Promise<Uint8Array>
  close(): Promise<void>
}

/** `threads` large bodies at a time; the others wait. Threads are started when they are first needed. */
export function createRequestPreparer(catalog: Catalog, threads: number): RequestPreparer {
  const pool = new Piscina({
    filename: new URL('./thread.ts', import.meta.url).href,
    workerData: { catalog },
    minThreads: 0,
    maxThreads: threads,
    idleTimeout: IDLE_THREAD_MS,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB },
  })
  const onThread = async <Name extends keyof ThreadTasks>(
    name: Name,
    task: ThreadTasks[Name]['task'],
    bytes: Uint8Array,
  ): Promise<ThreadTasks[Name]['answer']> => await pool.run(task, { name, transferList: ownMemoryOf(bytes) })
  const prepareOnThread = async ({ bytes }: UnparsedJson, operationId: string | null) => {
    return revive(valueOf(await onThread('prepareJson', { bytes, operationId }, bytes)))
  }
  return {
    prepareRequest: async (operation, body) =>
      body instanceof UnparsedJson
        ? (await prepareOnThread(body, operation.id)).prepared
        : prepareBody(operation, body, catalog),
    prepareQuote: async (given) => {
      if (given instanceof UnparsedJson) return await prepareOnThread(given, null)
      const { operation, body } = readQuoteEnvelope(given)
      return { operation, prepared: prepareBody(operation, body, catalog) }
    },
    measureAudio: async (audio) =>
      audio.length <= SMALL_BODY_BYTES ? measureAudio(audio) : await onThread('measureFile', audio, audio),
    encryptUpload: async (stagedUpload, audio) =>
      audio.length <= SMALL_BODY_BYTES
        ? encryptUpload(stagedUpload, audio)
        : await onThread('sealUpload', { audio, stagedUpload }, audio),
    close: () => pool.close({ force: true }),
  }
}

function revive({ operationId, prepared }: PlainPrepared): { operation: AnyOperation; prepared: Prepared } {
  const operation = operationById(operationId)
  if (prepared.kind === 'upload') return { operation, prepared }
  const { quoted, ...request } = prepared
  const quote = () => {
    if (!quoted) throw new Error(`the model ${request.publicModel} is not available and has no price`)
    return valueOf(quoted)
  }
  return { operation, prepared: { ...request, quote } }
}
